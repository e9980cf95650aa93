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
    pub(super) device: Device,
    /// A service acts for the user: it needs no membership and no session.
    pub(super) service: bool,
    /// All sockets of the user.
    pub(super) person: Arc<Person>,
    /// What tells that the session has ended.
    pub(super) line: Line,
    /// Held while presence is told of the socket, so that its goings and comings are told in order.
    pub(super) presence: tokio::sync::Mutex<()>,
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

/// What changes.
pub(super) struct Inner {
    pub(super) caller: Arc<Caller>,
    /// The conversations whose live stream it has.
    pub(super) joined: HashSet<ConversationId>,
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

    /// Who calls.
    pub(super) fn caller(&self) -> Arc<Caller> {
        Arc::clone(&self.inner.lock().caller)
    }
}
