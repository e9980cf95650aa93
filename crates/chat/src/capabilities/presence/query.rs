//! Reads presence.
//!
//! Invariant: reads change nothing. A device whose deadline has passed does not count, even before a sweep removes it.

use redis::pipe;

use super::Presence;
use super::model::{LiveDevice, PresenceStatus, UserStatus};
use crate::api::error::{Error, Result};
use crate::clock::Timestamp;
use crate::context::ChatContext;
use crate::ids::{DeadlineShard, DeviceId, NodeId, UserId};

/// Maximum number of users per query.
pub const MAX_USERS_PER_QUERY: usize = 1_000;

/// `s`, `v`, `seen` and `until` of a state, then the key `lastseen`, which outlives the state.
type StoredStatus = (
    (
        Option<PresenceStatus>,
        Option<u64>,
        Option<String>,
        Option<u64>,
    ),
    Option<String>,
);

impl Presence {
    /// Returns the status of a user. If the store is unavailable, the status is offline and `degraded`.
    pub async fn status(&self, user: &UserId) -> Result<UserStatus> {
        let mut statuses = self.statuses(std::slice::from_ref(user)).await?;
        Ok(statuses.pop().expect("one answer for one user"))
    }

    /// Returns the statuses of up to 1,000 users in their order, in one round trip. If the store is unavailable, the
    /// statuses are offline and `degraded`.
    pub async fn statuses(&self, users: &[UserId]) -> Result<Vec<UserStatus>> {
        match read_statuses(&self.ctx, users).await {
            Err(error) if error.is_store_unavailable() => {
                Ok(users.iter().cloned().map(UserStatus::unknown).collect())
            }
            answer => answer,
        }
    }

    /// Lists the live devices of a user, ordered by id.
    pub async fn devices(&self, user: &UserId) -> Result<Vec<LiveDevice>> {
        let mut cmd = redis::cmd("HGETALL");
        cmd.arg(self.ctx.keys().presence_state(user));
        let state: std::collections::HashMap<String, String> =
            cmd.query_async(&mut self.ctx.store().clone()).await?;
        let now = self.ctx.now();
        let mut devices: Vec<LiveDevice> = state
            .iter()
            .filter_map(|(field, value)| {
                let id = field.strip_prefix("d:")?;
                let info = state.get(&format!("i:{id}"));
                parse_live_device(id, value, info.map(String::as_str), now)
            })
            .collect();
        devices.sort_by(|a, b| a.device_id.cmp(&b.device_id));
        Ok(devices)
    }

    /// Counts the connected users, including invisible ones. A user whose last device left or expired counts until the
    /// next sweep, about one second.
    pub async fn count(&self) -> Result<u64> {
        let mut pipe = pipe();
        for shard in DeadlineShard::all() {
            pipe.cmd("ZCARD")
                .arg(self.ctx.keys().presence_deadlines(shard));
        }
        let counts: Vec<u64> = pipe.query_async(&mut self.ctx.store().clone()).await?;
        Ok(counts.iter().sum())
    }
}

/// Reads the statuses of users in one pipeline.
pub(super) async fn read_statuses(ctx: &ChatContext, users: &[UserId]) -> Result<Vec<UserStatus>> {
    if users.len() > MAX_USERS_PER_QUERY {
        return Err(Error::TooMany {
            items: "users",
            given: users.len(),
            max: MAX_USERS_PER_QUERY,
        });
    }
    if users.is_empty() {
        return Ok(Vec::new());
    }
    let now = ctx.now();
    let mut pipe = pipe();
    for user in users {
        pipe.cmd("HMGET")
            .arg(ctx.keys().presence_state(user))
            .arg(&["s", "v", "seen", "until"]);
        pipe.cmd("GET").arg(ctx.keys().last_seen(user));
    }
    let replies: Vec<redis::Value> = pipe.query_async(&mut ctx.store().clone()).await?;
    let mut replies = replies.into_iter();
    let mut statuses = Vec::with_capacity(users.len());
    for user in users {
        let pair = replies.by_ref().take(2).collect();
        let pair: StoredStatus =
            redis::from_redis_value(redis::Value::Array(pair)).map_err(redis::RedisError::from)?;
        statuses.push(to_user_status(now, user, pair));
    }
    Ok(statuses)
}

fn to_user_status(now: Timestamp, user: &UserId, read: StoredStatus) -> UserStatus {
    let ((status, version, seen, until), last_seen) = read;
    let live = until.is_some_and(|until| until > now.as_millis());
    UserStatus {
        user_id: user.clone(),
        status: status.filter(|_| live).unwrap_or(PresenceStatus::Offline),
        last_seen: seen.or(last_seen),
        version: version.unwrap_or(0),
        degraded: false,
    }
}

/// Parses a device of the state, `node#boot_id|deadline|connectedAt`. None if its deadline has passed.
fn parse_live_device(
    id: &str,
    value: &str,
    info: Option<&str>,
    now: Timestamp,
) -> Option<LiveDevice> {
    let (node, rest) = value.split_once('#')?;
    let (_, rest) = rest.split_once('|')?;
    let (deadline, connected) = rest.split_once('|')?;
    let deadline = deadline
        .parse()
        .ok()
        .map(Timestamp)
        .filter(|deadline| *deadline > now)?;
    Some(LiveDevice {
        device_id: DeviceId::new(id).ok()?,
        server_id: NodeId::new(node).ok()?,
        connected_at: connected.to_owned(),
        device: info.and_then(|info| serde_json::from_str(info).ok()),
        expires_at: deadline.to_iso8601(),
    })
}
