//! Presence that other services have written to the documented keys, for reads.
//!
//! Invariant: an entry of another service counts only if the state does not explain it. The scripts apply the same
//! rules in `external_lease`.

use std::collections::HashSet;

use redis::{FromRedisValue, Pipeline, Value};

use super::model::{PresenceStatus, UserStatus};
use super::stored_state::StoredState;
use crate::clock::Timestamp;
use crate::ids::UserId;
use crate::keys::{Keyspace, PresenceLayout};

/// Time, ms, by which the end of a key may differ from the deadline in the state without being another service's.
const LEASE_TOLERANCE_MS: u64 = 1_000;

/// Status of a user according to the keys of the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExternalStatus {
    /// Nothing but what the state explains.
    None,
    /// Another service keeps the user online.
    Online,
    /// Another service has set the user offline.
    Offline,
}

impl ExternalStatus {
    /// Changes a status that was derived from the state alone.
    pub(super) fn apply(self, status: &mut UserStatus) {
        match self {
            Self::Online if status.status == PresenceStatus::Offline => {
                status.status = PresenceStatus::Online;
                status.external = true;
            }
            Self::Offline => status.status = PresenceStatus::Offline,
            Self::None | Self::Online => {}
        }
    }
}

/// Number of commands that [`add_layout_reads`] adds per user.
pub(super) fn layout_read_count(layout: PresenceLayout) -> usize {
    match layout {
        PresenceLayout::Devices | PresenceLayout::Document => 1,
        PresenceLayout::Sockets | PresenceLayout::Status => 2,
    }
}

/// Adds the commands that read the keys of the layout of a user.
pub(super) fn add_layout_reads(pipe: &mut Pipeline, keys: &Keyspace, user: &UserId) {
    match keys.settings().layouts.presence {
        PresenceLayout::Devices => {
            pipe.cmd("HKEYS").arg(keys.presence_devices(user));
        }
        PresenceLayout::Document => {
            pipe.cmd("GET").arg(keys.presence_document(user));
        }
        PresenceLayout::Sockets => {
            pipe.cmd("GET").arg(keys.presence_online(user));
            pipe.cmd("SMEMBERS").arg(keys.presence_sockets(user));
        }
        PresenceLayout::Status => {
            pipe.cmd("GET").arg(keys.presence_status(user));
            pipe.cmd("PTTL").arg(keys.presence_status(user));
        }
    }
}

/// Finds what other services have written, in the replies to [`add_layout_reads`].
pub(super) fn status_in_layout(
    layout: PresenceLayout,
    state: &StoredState,
    user: &UserId,
    now: Timestamp,
    replies: Vec<Value>,
) -> ExternalStatus {
    let mut replies = replies.into_iter();
    let is_hidden = state.field("x") == Some(PresenceStatus::Offline.name());
    let is_online = match layout {
        PresenceLayout::Devices => {
            let fields: Vec<String> = parse(replies.next());
            fields.iter().any(|field| !state.has_device(field))
        }
        PresenceLayout::Document => {
            let document: Option<String> = parse(replies.next());
            document.is_some_and(|document| {
                Timestamp(state.time("lease")) > now || !is_own_document(&document, state)
            })
        }
        PresenceLayout::Sockets => {
            let flag: Option<String> = parse(replies.next());
            let members: Vec<String> = parse(replies.next());
            flag.as_deref() == Some("true") && has_foreign_member(state, user, &members)
        }
        PresenceLayout::Status => {
            let value: Option<String> = parse(replies.next());
            let left: i64 = parse(replies.next());
            if value.as_deref() == Some("offline") {
                return ExternalStatus::Offline;
            }
            let is_external = is_extended(state, now, left);
            return match value.is_some() && is_external {
                true => ExternalStatus::Online,
                false => ExternalStatus::None,
            };
        }
    };
    match is_online && !is_hidden {
        true => ExternalStatus::Online,
        false => ExternalStatus::None,
    }
}

fn parse<T: FromRedisValue + Default>(reply: Option<Value>) -> T {
    let reply = reply.and_then(|reply| redis::from_redis_value(reply).ok());
    reply.unwrap_or_default()
}

/// True if Parlor wrote the document: it remembers the time in it.
fn is_own_document(document: &str, state: &StoredState) -> bool {
    let own = state.field("doc");
    own.is_some_and(|own| document.ends_with(&format!(",\"lastSeen\":{own}}}")))
}

/// True if a socket in the set is another service's. If the state has no device at all, the flag is another service's,
/// too.
fn has_foreign_member(state: &StoredState, user: &UserId, members: &[String]) -> bool {
    let own: HashSet<String> = state
        .devices()
        .map(|(id, entry)| entry.socket_name(id, user))
        .collect();
    own.is_empty() || members.iter().any(|member| !own.contains(member))
}

/// True if the key exists for longer than the devices in the state explain.
fn is_extended(state: &StoredState, now: Timestamp, left: i64) -> bool {
    let deadline = state.devices().map(|(_, entry)| entry.deadline.as_millis());
    let deadline = deadline.max().unwrap_or(0);
    let ends = match u64::try_from(left) {
        Ok(left) => now.as_millis().saturating_add(left),
        Err(_) => u64::MAX,
    };
    ends > deadline.saturating_add(LEASE_TOLERANCE_MS) || Timestamp(state.time("lease")) > now
}
