//! What the store holds about a user, as it was read.

use std::collections::HashMap;

use redis::{RedisResult, Value, from_redis_value, pipe};

use super::rows::Position;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::ids::UserId;

/// The state of a user and the documented total.
#[derive(Debug, Default, Clone)]
pub(super) struct Held {
    /// Conversations and their fields.
    pub(super) fields: HashMap<String, String>,
    epoch: Option<u64>,
    sum: Option<u64>,
    /// The documented key; none if there is none.
    pub(super) total: Option<String>,
}

impl Held {
    /// Whether it was held against the rows in this epoch.
    pub(super) fn is_warm(&self, epoch: u64) -> bool {
        self.sum.is_some() && self.epoch.is_some_and(|checked| checked >= epoch)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.epoch.is_none() && self.total.is_none()
    }

    /// Whether both totals are this number.
    pub(super) fn totals(&self, number: u64) -> bool {
        self.sum == Some(number) && shows(self.total.as_deref(), number)
    }

    /// Whether the field of a conversation says what the row does.
    pub(super) fn agrees(&self, position: &Position, now: u64) -> bool {
        let field = self.fields.get(position.conversation_id.as_str());
        let Some(field) = field.and_then(|text| Field::parse(text)) else {
            return false;
        };
        let muted = |until: u64| if until > now { until } else { 0 };
        field
            == Field {
                joined: position.joined_version,
                position: position.position_version,
                top: position.last_seq,
                badge: position.badge_seq,
                own: position.own_after,
                muted: field.muted,
                counted: !position.is_muted(now),
            }
            && muted(field.muted) == muted(position.muted_until)
    }

    /// Whether the field differs by its `top` alone, which is lower.
    pub(super) fn is_behind(&self, position: &Position, now: u64) -> bool {
        let field = self.fields.get(position.conversation_id.as_str());
        let top = field.and_then(|text| Field::parse(text)).map(|it| it.top);
        top.is_some_and(|top| {
            let then = Position {
                last_seq: top,
                ..position.clone()
            };
            top < position.last_seq && self.agrees(&then, now)
        })
    }

    /// What the field of a conversation makes of it; none if it cannot be read, or the user left.
    pub(super) fn count(&self, conversation: &str) -> Option<u64> {
        let field = Field::parse(self.fields.get(conversation)?)?;
        Some(super::count(field.top, field.badge, field.own))
    }
}

/// Whether a documented counter shows a number: without a key it is 0.
pub(super) fn shows(key: Option<&str>, number: u64) -> bool {
    match key {
        None => number == 0,
        Some(text) => number > 0 && text.parse() == Ok(number),
    }
}

/// A field of a member; `field.lua` has the format.
#[derive(Debug, PartialEq, Eq)]
struct Field {
    joined: u64,
    position: u64,
    top: u64,
    badge: u64,
    own: u64,
    muted: u64,
    counted: bool,
}

impl Field {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix("1|")?.split('|');
        let mut number = || parts.next()?.parse::<u64>().ok();
        let field = Self {
            joined: number()?,
            position: number()?,
            top: number()?,
            badge: number()?,
            own: number()?,
            muted: number()?,
            counted: {
                number()?;
                number()? == 1
            },
        };
        parts.next().is_none().then_some(field)
    }
}

/// When the user left, if that is what a field says.
pub(super) fn left_at(text: &str) -> Option<u64> {
    let mut numbers = text.strip_prefix("1|left|")?.split('|');
    numbers.nth(1)?.parse().ok()
}

/// What is held about each of these users, in one round trip. What somebody else put in the place of a key is not held.
pub(super) async fn read(ctx: &Context, users: &[UserId]) -> Result<Vec<Held>> {
    if users.is_empty() {
        return Ok(Vec::new());
    }
    let keys = ctx.keys();
    let mut pipe = pipe();
    for user in users {
        pipe.cmd("HGETALL").arg(keys.unread_state(user));
        pipe.cmd("GET").arg(keys.unread_total(user));
    }
    let mut replies = replies(ctx, &mut pipe).await?.into_iter();
    let held = users.iter().map(|_| {
        let mut fields: HashMap<String, String> = taken(replies.next().flatten());
        let mut number = |name: &str| fields.remove(name)?.parse().ok();
        Held {
            epoch: number(":epoch"),
            sum: number(":total"),
            fields,
            total: taken(replies.next().flatten()),
        }
    });
    Ok(held.collect())
}

/// The replies of a pipeline; none for a command that was refused, say for a key that somebody else wrote.
pub(super) async fn replies(
    ctx: &Context,
    pipe: &mut redis::Pipeline,
) -> Result<Vec<Option<Value>>> {
    let mut store = ctx.store().clone();
    let replies: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(&mut store).await?;
    let each = replies
        .into_iter()
        .map(|reply| match reply.map_err(Error::from) {
            Ok(value) => Ok(Some(value)),
            Err(Error::Internal(_)) => Ok(None),
            Err(error) => Err(error),
        });
    each.collect()
}

/// What a documented counter shows.
pub(super) fn shown(reply: Option<Value>) -> Option<String> {
    match reply {
        Some(value) => from_redis_value(value).ok().flatten(),
        None => Some("a value of another type".to_owned()),
    }
}

fn taken<T: redis::FromRedisValue + Default>(reply: Option<Value>) -> T {
    let read = reply.and_then(|value| from_redis_value(value).ok());
    read.unwrap_or_default()
}
