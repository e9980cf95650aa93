//! Calls of the presence scripts: the keys and arguments that all scripts share, and their reply.

use parlor_store::{LuaScript, ScriptCall, Store};
use redis::{FromRedisValue, ParsingError, Pipeline, RedisResult, Value};

use super::layouts::{PresenceScripts, layout_keys, scripts_for};
use super::model::{PresenceStatus, UserStatus};
use super::register::{RegistrationOutcome, RegistrationReply};
use crate::api::error::{Error, Result};
use crate::clock::{Timestamp, duration_millis};
use crate::context::ChatContext;
use crate::ids::{UserId, WatchShard};
use crate::keys::{Channel, PresenceLayout, TtlName};

/// Keys and arguments that all script calls of one moment share.
pub(super) struct PresenceScriptArgs<'a> {
    ctx: &'a ChatContext,
    layout: PresenceLayout,
    pub(super) now: Timestamp,
    now_iso: String,
    online: Channel,
    offline: Channel,
}

impl<'a> PresenceScriptArgs<'a> {
    pub(super) fn new(ctx: &'a ChatContext) -> Self {
        let now = ctx.now();
        Self {
            ctx,
            layout: ctx.keys().settings().layouts.presence,
            now,
            now_iso: now.to_iso8601(),
            online: ctx.keys().user_online_channel(),
            offline: ctx.keys().user_offline_channel(),
        }
    }

    /// Creates a script call with the shared keys and arguments. The script's own arguments follow.
    pub(super) fn call(
        &self,
        script: fn(&'static PresenceScripts) -> &'static LuaScript,
        user: &UserId,
    ) -> ScriptCall {
        self.call_script(script(scripts_for(self.layout)), user)
    }

    /// As [`call`](Self::call), for a script of this layout alone.
    pub(super) fn call_script(&self, script: &'static LuaScript, user: &UserId) -> ScriptCall {
        let keys = self.ctx.keys();
        let mut names = vec![keys.presence_state(user), keys.last_seen(user)];
        names.extend(layout_keys(self.layout, keys, user));
        script
            .keys(names)
            .arg(user)
            .arg(self.now.as_millis())
            .arg(&self.now_iso)
            .arg(duration_millis(keys.ttl(TtlName::Presence)))
            .arg(duration_millis(keys.ttl(TtlName::StatusOffline)))
            .arg(&self.online)
            .arg(&self.offline)
            .arg(keys.presence_changes_channel(WatchShard::for_user(user)))
            .arg(if keys.settings().presence_external {
                "external"
            } else {
                ""
            })
    }
}

/// Reply of `commit_state`: a user's presence after the script.
#[derive(Debug, Clone)]
pub(super) struct PresenceSnapshot {
    pub(super) status: PresenceStatus,
    pub(super) version: u64,
    /// When to check the user next, in ms: the latest deadline, or without a device the end of the entries of other
    /// services; 0 without both.
    pub(super) latest_deadline: u64,
    pub(super) last_seen: Option<String>,
    /// Only other services keep the user online.
    pub(super) is_external: bool,
    /// A documented key has a foreign type and stays as it is.
    pub(super) has_wrong_type: bool,
}

impl PresenceSnapshot {
    pub(super) fn into_user_status(self, user: &UserId) -> UserStatus {
        UserStatus {
            user_id: user.clone(),
            status: self.status,
            last_seen: self.last_seen,
            version: self.version,
            degraded: false,
            external: self.is_external,
        }
    }
}

/// Runs a pipeline and returns one result per command that is not ignored. A rejected command, for example on a key of
/// a foreign type, fails alone; any other error fails the whole call.
pub(super) async fn query_each<T: FromRedisValue>(
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
            Err(error) if !matches!(error, Error::StoreRejected(_)) => Err(error),
            reply => Ok(reply),
        });
    each.collect()
}

impl FromRedisValue for PresenceSnapshot {
    fn from_redis_value(value: Value) -> std::result::Result<Self, ParsingError> {
        let (status, version, until, seen, is_external, has_wrong_type): (_, _, _, String, _, _) =
            FromRedisValue::from_redis_value(value)?;
        Ok(Self {
            status,
            version,
            latest_deadline: until,
            last_seen: Some(seen).filter(|seen| !seen.is_empty()),
            is_external,
            has_wrong_type,
        })
    }
}

impl FromRedisValue for RegistrationReply {
    fn from_redis_value(value: Value) -> std::result::Result<Self, ParsingError> {
        let mut parts: Vec<Value> = FromRedisValue::from_redis_value(value)?;
        let outcome = match u8::from_redis_value(parts.pop().unwrap_or(Value::Nil))? {
            0 => RegistrationOutcome::Registered,
            1 => RegistrationOutcome::DeviceRemoved,
            2 => RegistrationOutcome::TooManyDevices,
            _ => RegistrationOutcome::HeldBySocket,
        };
        let snapshot = PresenceSnapshot::from_redis_value(Value::Array(parts))?;
        Ok(Self { snapshot, outcome })
    }
}
