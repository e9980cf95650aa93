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

use super::people::Person;
use super::session::Line;
use super::watching::Watching;
use super::words::{ClosedReason, Place};

/// What the gateway keeps of a socket.
pub struct State {
    /// What it is for presence; its user is whose socket it is.
    pub(super) device: Arc<Device>,
    /// A service acts for the user: it needs no membership and no session.
    pub(super) service: bool,
    /// All sockets of the user.
    pub(super) person: Arc<Person>,
    /// What tells that the session has ended.
    pub(super) line: Line,
    /// The time its events have used up.
    pub(super) used: AtomicU64,
    /// Events that were refused since one was taken.
    pub(super) refused: AtomicU32,
    /// When its token ends, in milliseconds since the gateway began.
    pub(super) ends: AtomicU64,
    /// When its session was last asked for, in seconds since the gateway began.
    pub(super) checked: AtomicU32,
    /// Whether the connection is lost and the socket held.
    pub(super) detached: AtomicBool,
    pub(super) inner: Mutex<Inner>,
}

/// Conversations; of none no set is kept.
#[derive(Default)]
#[expect(
    clippy::box_collection,
    reason = "an idle socket has a pointer, not an empty set"
)]
pub(super) struct Joined(Option<Box<HashSet<ConversationId>>>);

impl Joined {
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
pub(super) struct Inner {
    pub(super) caller: Arc<Caller>,
    /// See [`State::telling`].
    pub(super) telling: Option<Arc<tokio::sync::Mutex<()>>>,
    /// The conversations whose live stream it has.
    pub(super) joined: Joined,
    /// The last conversation whose stream was ended because the user left it.
    pub(super) removed: Option<ConversationId>,
    /// What is to be joined first.
    pub(super) resume: Option<Box<[(String, Place)]>>,
    /// Whom it watches.
    pub(super) watching: Option<Watching>,
    /// Why it was closed.
    pub(super) closed: Option<ClosedReason>,
    /// It is gone for good.
    pub(super) over: bool,
}

impl State {
    /// Whether its client is not there now, or never again.
    pub(super) fn is_gone(&self) -> bool {
        let inner = self.inner.lock();
        inner.over || inner.closed.is_some() || self.detached.load(Ordering::Acquire)
    }

    /// Held while presence is told of the socket, so that its goings and comings are told in order. A socket that stays has
    /// none.
    pub(super) fn telling(&self) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.inner.lock().telling.get_or_insert_default())
    }

    /// Who calls.
    pub(super) fn caller(&self) -> Arc<Caller> {
        Arc::clone(&self.inner.lock().caller)
    }
}
