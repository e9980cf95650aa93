//! State that the gateway keeps per socket. It is small, because a node has many sockets.
//!
//! Invariants:
//! 1. An idle socket has no task, no timer and no channel of its own.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use parlor_chat::api::caller::Caller;
use parlor_chat::ids::ConversationId;
use parlor_chat::presence::Device;

use super::bodies::{ResumePosition, SessionCloseReason};
use super::presence_watch::PresenceTask;
use super::session_end::SessionBinding;
use super::users::ConnectedUser;

/// State of a socket.
pub struct UserSocketState {
    /// Presence device of the socket; its user is the user of the socket.
    pub(super) device: Arc<Device>,
    /// The token is one of a service that acts for the user; it needs no membership and no session.
    pub(super) is_service: bool,
    /// User with all its sockets on this node.
    pub(super) user: Arc<ConnectedUser>,
    /// Registration for the end of the session.
    pub(super) session: SessionBinding,
    /// State of the event rate limit.
    pub(super) event_rate_state: AtomicU64,
    /// Consecutive events above the rate limit.
    pub(super) rejected_events: AtomicU32,
    /// Expiry of the token, in milliseconds since the gateway started.
    pub(super) token_expires_ms: AtomicU64,
    /// Last session check, in seconds since the gateway started.
    pub(super) session_checked_secs: AtomicU32,
    /// The connection is lost and the socket waits for recovery.
    pub(super) is_detached: AtomicBool,
    pub(super) mutable: Mutex<UserSocketMut>,
}

/// Set of conversations that allocates nothing while it is empty.
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

    /// False if the conversation was already in the set.
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

/// Fields behind the lock.
pub(super) struct UserSocketMut {
    pub(super) caller: Arc<Caller>,
    /// See [`UserSocketState::presence_lock`].
    pub(super) presence_lock: Option<Arc<tokio::sync::Mutex<()>>>,
    /// Joined conversations.
    pub(super) joined: JoinedSet,
    /// Last conversation that the socket was removed from; its removal has already been sent.
    pub(super) last_removed: Option<ConversationId>,
    /// Conversations to resume after the handshake.
    pub(super) resume_positions: Option<Box<[(String, ResumePosition)]>>,
    /// Task that watches presence for the socket.
    pub(super) presence_task: Option<PresenceTask>,
    /// Reason with which the gateway closed the socket.
    pub(super) close_reason: Option<SessionCloseReason>,
    /// The socket is disconnected and cannot be recovered.
    pub(super) is_disconnected: bool,
}

impl UserSocketState {
    /// True if the connection is lost, closing or closed.
    pub(super) fn is_detached_or_closed(&self) -> bool {
        let mutable = self.mutable.lock();
        mutable.is_disconnected
            || mutable.close_reason.is_some()
            || self.is_detached.load(Ordering::Acquire)
    }

    /// Lock that keeps the presence updates of the socket in order. Created on first use: a socket that stays connected
    /// has none.
    pub(super) fn presence_lock(&self) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.mutable.lock().presence_lock.get_or_insert_default())
    }

    /// Caller of the socket's events.
    pub(super) fn caller(&self) -> Arc<Caller> {
        Arc::clone(&self.mutable.lock().caller)
    }
}
