//! What the gateway keeps of a socket: little, for there are many.
//!
//! Always true: an idle socket has no task, no timer and no channel of its own.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use parlor_chat::access::Caller;
use parlor_chat::ids::ConversationId;
use parlor_chat::presence::Device;

use super::people::ConnectedUser;
use super::session::SessionBinding;
use super::watching::PresenceTask;
use super::words::{ClosedReason, Place};

/// What the gateway keeps of a socket.
pub struct UserSocketState {
    /// What it is for presence; its user is whose socket it is.
    pub(super) device: Arc<Device>,
    /// A service acts for the user: it needs no membership and no session.
    pub(super) is_service: bool,
    /// All sockets of the user.
    pub(super) user: Arc<ConnectedUser>,
    /// What tells that the session has ended.
    pub(super) session: SessionBinding,
    /// The time its events have used up.
    pub(super) event_rate_state: AtomicU64,
    /// Events that were refused since one was taken.
    pub(super) rejected_events: AtomicU32,
    /// When its token ends, in milliseconds since the gateway began.
    pub(super) token_expires_ms: AtomicU64,
    /// When its session was last asked for, in seconds since the gateway began.
    pub(super) session_checked_secs: AtomicU32,
    /// Whether the connection is lost and the socket held.
    pub(super) is_detached: AtomicBool,
    pub(super) mutable: Mutex<UserSocketMut>,
}

/// Conversations; of none no set is kept.
#[derive(Default)]
#[expect(
    clippy::box_collection,
    reason = "an idle socket has a pointer, not an empty set"
)]
pub(super) struct JoinedSet(Option<Box<HashSet<ConversationId>>>);

impl JoinedSet {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |set| set.len())
    }

    pub(super) fn contains(&self, id: &ConversationId) -> bool {
        self.0.as_ref().is_some_and(|set| set.contains(id))
    }

    /// False if it was there already.
    pub(super) fn insert(&mut self, id: ConversationId) -> bool {
        self.0.get_or_insert_default().insert(id)
    }

    pub(super) fn remove(&mut self, id: &ConversationId) {
        if let Some(set) = &mut self.0 {
            set.remove(id);
            if set.is_empty() {
                self.0 = None;
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ConversationId> {
        self.0.iter().flat_map(|set| set.iter())
    }
}

/// What changes.
pub(super) struct UserSocketMut {
    pub(super) caller: Arc<Caller>,
    /// See [`State::telling`].
    pub(super) presence_lock: Option<Arc<tokio::sync::Mutex<()>>>,
    /// The conversations whose live stream it has.
    pub(super) joined: JoinedSet,
    /// The last conversation whose stream was ended because the user left it.
    pub(super) last_removed: Option<ConversationId>,
    /// What is to be joined first.
    pub(super) resume_positions: Option<Box<[(String, Place)]>>,
    /// Whom it watches.
    pub(super) presence_task: Option<PresenceTask>,
    /// Why it was closed.
    pub(super) close_reason: Option<ClosedReason>,
    /// It is gone for good.
    pub(super) is_disconnected: bool,
}

impl UserSocketState {
    /// Whether its client is not there now, or never again.
    pub(super) fn is_detached_or_closed(&self) -> bool {
        let inner = self.mutable.lock();
        inner.is_disconnected
            || inner.close_reason.is_some()
            || self.is_detached.load(Ordering::Acquire)
    }

    /// Held while presence is told of the socket, so that its goings and comings are told in order. A socket that stays has
    /// none.
    pub(super) fn presence_lock(&self) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.mutable.lock().presence_lock.get_or_insert_default())
    }

    /// Who calls.
    pub(super) fn caller(&self) -> Arc<Caller> {
        Arc::clone(&self.mutable.lock().caller)
    }
}
