//! Reads presence.
//!
//! Invariants:
//! 1. Reads change nothing. A device whose deadline has passed does not count, even before a sweep removes it.
//! 2. A version that a client has seen never falls, see [`StatusReader::version_floor`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::pipe;

use super::Presence;
use super::external::{add_layout_reads, layout_read_count, status_in_layout};
use super::model::{LiveDevice, PresenceStatus, UserStatus};
use super::script_call::query_each;
use super::stored_state::StoredState;
use crate::api::error::{Error, Result};
use crate::clock::Timestamp;
use crate::context::ChatContext;
use crate::ids::{DeadlineShard, DeviceId, UserId};

/// Maximum number of users per query.
pub const MAX_USERS_PER_QUERY: usize = 1_000;

/// Reads the statuses of users.
#[derive(Debug)]
pub(super) struct StatusReader {
    ctx: ChatContext,
    /// Minimum of every version that is returned: the time of the last unclean start of the embedded store, which may
    /// have lost later versions. 0 if there was none.
    version_floor: AtomicU64,
}

impl Presence {
    /// Returns the status of a user. If the store is unavailable, the status is offline and `degraded`.
    pub async fn status(&self, user: &UserId) -> Result<UserStatus> {
        let mut statuses = self.statuses(std::slice::from_ref(user)).await?;
        Ok(statuses.pop().expect("one answer for one user"))
    }

    /// Returns the statuses of up to 1,000 users in their order, in one round trip. If the store is unavailable, the
    /// statuses are offline and `degraded`.
    pub async fn statuses(&self, users: &[UserId]) -> Result<Vec<UserStatus>> {
        match self.reader.statuses(users).await {
            Err(error) if error.is_store_unavailable() => {
                Ok(users.iter().cloned().map(UserStatus::unknown).collect())
            }
            answer => answer,
        }
    }

    /// Lists the live devices of a user, ordered by id. Of several connections of a device, the newest is listed.
    pub async fn devices(&self, user: &UserId) -> Result<Vec<LiveDevice>> {
        let mut cmd = redis::cmd("HGETALL");
        cmd.arg(self.ctx.keys().presence_state(user));
        let state: StoredState = cmd.query_async(&mut self.ctx.store().clone()).await?;
        let mut devices: BTreeMap<DeviceId, LiveDevice> = BTreeMap::new();
        for (id, entry) in state.devices() {
            if entry.deadline <= self.ctx.now() {
                continue;
            }
            let Some(device) = entry.to_live_device(state.client_info(id)) else {
                continue;
            };
            let newer = |listed: &LiveDevice| listed.connected_at > device.connected_at;
            if !devices.get(&device.device_id).is_some_and(newer) {
                devices.insert(device.device_id.clone(), device);
            }
        }
        Ok(devices.into_values().collect())
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

impl StatusReader {
    pub(super) fn new(ctx: ChatContext) -> Self {
        Self {
            ctx,
            version_floor: AtomicU64::new(0),
        }
    }

    pub(super) fn raise_version_floor(&self, floor: u64) {
        self.version_floor.fetch_max(floor, Ordering::Relaxed);
    }

    /// Raises the version of a status to the floor.
    pub(super) fn with_floor(&self, mut status: UserStatus) -> UserStatus {
        let floor = self.version_floor.load(Ordering::Relaxed);
        status.version = status.version.max(floor);
        status
    }

    /// Reads the statuses of users in one pipeline. A key of a foreign type counts as missing.
    pub(super) async fn statuses(&self, users: &[UserId]) -> Result<Vec<UserStatus>> {
        if users.len() > MAX_USERS_PER_QUERY {
            return Err(Error::TooMany {
                items: "users",
                given: users.len(),
                max: MAX_USERS_PER_QUERY,
            });
        }
        let keys = self.ctx.keys();
        let layout = keys.settings().layouts.presence;
        let reads_layout = keys.settings().presence_external;
        let now = self.ctx.now();
        let mut pipe = pipe();
        for user in users {
            // The state first: a device that connects in between is read as external at worst, and is online anyway.
            match reads_layout {
                true => pipe.cmd("HGETALL").arg(keys.presence_state(user)),
                false => pipe
                    .cmd("HMGET")
                    .arg(keys.presence_state(user))
                    .arg(&StoredState::STATUS_FIELDS),
            };
            pipe.cmd("GET").arg(keys.last_seen(user));
            if reads_layout {
                add_layout_reads(&mut pipe, keys, user);
            }
        }
        let replies = query_each::<redis::Value>(self.ctx.store().clone(), &mut pipe).await?;
        let mut replies = replies
            .into_iter()
            .map(|it| it.unwrap_or(redis::Value::Nil));
        let mut statuses = Vec::with_capacity(users.len());
        for user in users {
            let state = replies.next().unwrap_or(redis::Value::Nil);
            let state = match reads_layout {
                true => StoredState::from_hash(state),
                false => StoredState::from_status_fields(state),
            };
            let last_seen = replies
                .next()
                .and_then(|it| redis::from_redis_value(it).ok());
            let mut status = to_user_status(now, user, &state, last_seen.flatten(), reads_layout);
            if reads_layout {
                let read: Vec<_> = replies.by_ref().take(layout_read_count(layout)).collect();
                let found = status_in_layout(layout, &state, user, now, read);
                found.apply(&mut status);
            }
            statuses.push(self.with_floor(status));
        }
        Ok(statuses)
    }
}

fn to_user_status(
    now: Timestamp,
    user: &UserId,
    state: &StoredState,
    last_seen: Option<String>,
    reads_devices: bool,
) -> UserStatus {
    let status = state.field("s").and_then(PresenceStatus::parse);
    // The latest deadline also covers entries of other services, so it decides only if these do not count.
    let is_live = match reads_devices {
        true => state.devices().any(|(_, entry)| entry.deadline > now),
        false => state.deadline() > now,
    };
    UserStatus {
        user_id: user.clone(),
        status: status
            .filter(|_| is_live)
            .unwrap_or(PresenceStatus::Offline),
        // The key outlives the state, and other services write it, too.
        last_seen: last_seen.or_else(|| state.field("seen").map(str::to_owned)),
        version: state.field("v").and_then(|it| it.parse().ok()).unwrap_or(0),
        degraded: false,
        external: false,
    }
}
