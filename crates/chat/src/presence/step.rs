//! Calling the scripts: the keys and arguments that all steps share, and their reply.

use parlor_store::{Call, Script, Store};
use redis::{FromRedisValue, ParsingError, Pipeline, RedisResult, Value};

use super::layouts::{self, Layout, Scripts};
use super::ops::{Status, UserStatus};
use super::register::{Outcome, Registered};
use crate::context::{Context, Moment, millis};
use crate::error::{Error, Result};
use crate::ids::{UserId, WatchShard};
use crate::keys::{Channel, TtlName};

/// What the calls of one moment have in common.
pub(super) struct Steps<'a> {
    ctx: &'a Context,
    layout: &'static dyn Layout,
    pub(super) now: Moment,
    iso: String,
    online: Channel,
    offline: Channel,
}

impl<'a> Steps<'a> {
    pub(super) fn now(ctx: &'a Context) -> Self {
        let now = ctx.now();
        Self {
            ctx,
            layout: layouts::layout(ctx.keys().settings().layouts.presence),
            now,
            iso: now.iso(),
            online: ctx.keys().user_online_events(),
            offline: ctx.keys().user_offline_events(),
        }
    }

    /// A call of a step with the shared keys and arguments; its own arguments follow.
    pub(super) fn call(
        &self,
        step: fn(&'static Scripts) -> &'static Script,
        user: &UserId,
    ) -> Call {
        let keys = self.ctx.keys();
        let mut names = vec![keys.presence_state(user), keys.last_seen(user)];
        names.extend(self.layout.keys(keys, user));
        step(self.layout.scripts())
            .keys(names)
            .arg(user)
            .arg(self.now.ms())
            .arg(&self.iso)
            .arg(millis(keys.ttl(TtlName::Presence)))
            .arg(millis(keys.ttl(TtlName::StatusOffline)))
            .arg(&self.online)
            .arg(&self.offline)
            .arg(keys.watch(WatchShard::of(user)))
    }
}

/// The reply of `settle`.
#[derive(Debug, Clone)]
pub(super) struct Settled {
    pub(super) status: Status,
    pub(super) version: u64,
    /// The latest deadline; 0 without a device.
    pub(super) until: u64,
    pub(super) seen: Option<String>,
}

impl Settled {
    pub(super) fn of(self, user: &UserId) -> UserStatus {
        UserStatus {
            user_id: user.clone(),
            status: self.status,
            last_seen: self.seen,
            version: self.version,
            degraded: false,
        }
    }
}

/// The replies of a pipeline, one for each command that is not ignored. A command that was refused, say for a key that
/// somebody else wrote, is the error of that one; any other error is one of all.
pub(super) async fn replies<T: FromRedisValue>(
    mut store: Store,
    pipe: &mut Pipeline,
) -> Result<Vec<Result<T>>> {
    if pipe.is_empty() {
        return Ok(Vec::new());
    }
    let replies: Vec<RedisResult<T>> = pipe.ignore_errors().query_async(&mut store).await?;
    let each = replies
        .into_iter()
        .map(|reply| match reply.map_err(Error::from) {
            Err(error) if !matches!(error, Error::Internal(_)) => Err(error),
            reply => Ok(reply),
        });
    each.collect()
}

impl FromRedisValue for Settled {
    fn from_redis_value(value: Value) -> std::result::Result<Self, ParsingError> {
        let (status, version, until, seen): (_, _, _, String) =
            FromRedisValue::from_redis_value(value)?;
        Ok(Self {
            status,
            version,
            until,
            seen: Some(seen).filter(|seen| !seen.is_empty()),
        })
    }
}

impl FromRedisValue for Registered {
    fn from_redis_value(value: Value) -> std::result::Result<Self, ParsingError> {
        let mut parts: Vec<Value> = FromRedisValue::from_redis_value(value)?;
        let outcome = match u8::from_redis_value(parts.pop().unwrap_or(Value::Nil))? {
            0 => Outcome::Done,
            1 => Outcome::Ended,
            _ => Outcome::TooMany,
        };
        let settled = Settled::from_redis_value(Value::Array(parts))?;
        Ok(Self { settled, outcome })
    }
}
