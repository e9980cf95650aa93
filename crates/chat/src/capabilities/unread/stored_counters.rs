//! Unread state of users as read from the store.
//!
//! Invariants:
//! 1. A key of a foreign type and a field of another version count as missing.
//! 2. All numbers are below 2^53, so a float represents them exactly.

use std::collections::HashMap;

use redis::{RedisResult, Value, from_redis_value, pipe};

use super::rows::MemberPosition;
use super::scripts::counter_field::{self, CounterField, MemberField};
use crate::api::error::{Error, Result};
use crate::context::ChatContext;
use crate::ids::UserId;

/// Unread state of a user, and the documented total.
#[derive(Debug, Default, Clone)]
pub(super) struct StoredCounters {
    /// Encoded field of each conversation.
    pub(super) fields: HashMap<String, String>,
    epoch: Option<u64>,
    state_total: Option<u64>,
    /// Value of the documented key `unread:{user}:total`; `None` if the key does not exist.
    pub(super) total_key: Option<String>,
}

impl StoredCounters {
    /// Whether the state was compared with the rows in this epoch or a later one.
    pub(super) fn is_verified(&self, epoch: u64) -> bool {
        self.state_total.is_some() && self.epoch.is_some_and(|checked| checked >= epoch)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.epoch.is_none()
    }

    /// Whether the own total has this value, and the documented total includes it.
    pub(super) fn totals_include(&self, number: u64) -> bool {
        self.state_total == Some(number) && self.shown_total().is_some_and(|shown| shown >= number)
    }

    /// The documented total, in which other services count as well; `None` if it is no number.
    pub(super) fn shown_total(&self) -> Option<u64> {
        match &self.total_key {
            None => Some(0),
            Some(text) => text.parse().ok(),
        }
    }

    /// Whether the field of a conversation equals the row.
    pub(super) fn matches_row(&self, row: &MemberPosition, now: u64) -> bool {
        let field = self.member_field(row.conversation_id.as_str());
        field.is_some_and(|field| {
            let muted = |until: f64| if until > now as f64 { until } else { 0.0 };
            let numbers = [
                (field.joined_version, row.joined_version),
                (field.position_version, row.position_version),
                (field.last_seq, row.last_seq),
                (field.badge_seq, row.badge_seq),
                (field.own_after, row.own_after),
            ];
            numbers.iter().all(|(stored, row)| *stored == *row as f64)
                && field.in_total != row.is_muted(now)
                && muted(field.muted_until) == muted(row.muted_until as f64)
        })
    }

    /// Whether the field differs from the row only by an older `last_seq`.
    pub(super) fn lags_behind_row(&self, row: &MemberPosition, now: u64) -> bool {
        let field = self.member_field(row.conversation_id.as_str());
        field.is_some_and(|field| {
            let older_row = MemberPosition {
                last_seq: field.last_seq as u64,
                ..row.clone()
            };
            older_row.last_seq < row.last_seq && self.matches_row(&older_row, now)
        })
    }

    /// Unread count by the field of a conversation; `None` if the field cannot be parsed or the user left.
    pub(super) fn count(&self, conversation: &str) -> Option<u64> {
        let field = CounterField::Member(self.member_field(conversation)?);
        Some(counter_field::count(Some(&field)) as u64)
    }

    fn member_field(&self, conversation: &str) -> Option<MemberField> {
        match CounterField::parse(self.fields.get(conversation)?.as_bytes())? {
            CounterField::Member(field) => Some(field),
            CounterField::Left { .. } => None,
        }
    }
}

/// Whether a documented counter has this value. A missing key means 0.
pub(super) fn counter_equals(key: Option<&str>, number: u64) -> bool {
    match key {
        None => number == 0,
        Some(text) => number > 0 && text.parse() == Ok(number),
    }
}

/// Time at which the user left, if the field is the marker of a former membership.
pub(super) fn left_at(text: &str) -> Option<u64> {
    let mut numbers = text.strip_prefix("1|left|")?.split('|');
    numbers.nth(1)?.parse().ok()
}

/// Reads the state of these users in one round trip. A key of a foreign type counts as missing.
pub(super) async fn read_states(
    ctx: &ChatContext,
    users: &[UserId],
) -> Result<Vec<StoredCounters>> {
    if users.is_empty() {
        return Ok(Vec::new());
    }
    let keys = ctx.keys();
    let mut pipe = pipe();
    for user in users {
        pipe.cmd("HGETALL").arg(keys.unread_state(user));
        pipe.cmd("GET").arg(keys.unread_total(user));
    }
    let mut replies = query_tolerant(ctx, &mut pipe).await?.into_iter();
    let states = users.iter().map(|_| {
        let mut fields: HashMap<String, String> = parse_or_default(replies.next().flatten());
        let mut number = |name: &str| fields.remove(name)?.parse().ok();
        StoredCounters {
            epoch: number(":epoch"),
            state_total: number(":total"),
            fields,
            total_key: parse_or_default(replies.next().flatten()),
        }
    });
    Ok(states.collect())
}

/// Returns the replies of a pipeline; `None` for a command that the store rejected, for example on a foreign key type.
pub(super) async fn query_tolerant(
    ctx: &ChatContext,
    pipe: &mut redis::Pipeline,
) -> Result<Vec<Option<Value>>> {
    let mut store = ctx.store().clone();
    let replies: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(&mut store).await?;
    let replies = replies.into_iter();
    let tolerant = replies.map(|reply| match reply.map_err(Error::from) {
        Ok(value) => Ok(Some(value)),
        Err(Error::StoreRejected(_)) => Ok(None),
        Err(error) => Err(error),
    });
    tolerant.collect()
}

/// Text of a documented counter; `None` if the key does not exist.
pub(super) fn counter_text(reply: Option<Value>) -> Option<String> {
    match reply {
        Some(value) => from_redis_value(value).ok().flatten(),
        None => Some("a value of another type".to_owned()),
    }
}

fn parse_or_default<T: redis::FromRedisValue + Default>(reply: Option<Value>) -> T {
    let read = reply.and_then(|value| from_redis_value(value).ok());
    read.unwrap_or_default()
}
