//! Calling the scripts: the keys and arguments that all steps share, and their reply.

use parlor_store::{Call, Script};
use redis::{FromRedisValue, ParsingError, Value};

use super::layouts::{self, Layout, Scripts};
use super::ops::{Status, UserStatus};
use crate::context::{Context, Moment, millis};
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

impl FromRedisValue for Settled {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
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
