//! What tells a socket that its session has ended.
//!
//! Always true: it is told also when that happens before the socket is there.

use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use parlor_chat::sessions::{Attachment, Ending, Reason};

use super::words::ClosedReason;
use super::{Gateway, Socket};

/// What tells a socket that its session has ended, for as long as it is kept.
pub(super) struct Line {
    pub(super) slot: Arc<Slot>,
    /// None of a service.
    pub(super) _attached: Option<Attachment>,
}

/// The way to a socket from before it is there.
pub(super) struct Slot {
    gateway: Weak<Gateway>,
    socket: OnceLock<Weak<Socket>>,
    /// Why it is to be closed, if that came first.
    early: Mutex<Option<ClosedReason>>,
}

impl Slot {
    /// No socket yet.
    pub(super) fn of(gateway: &Arc<Gateway>) -> Arc<Self> {
        Arc::new(Self {
            gateway: Arc::downgrade(gateway),
            socket: OnceLock::new(),
            early: Mutex::new(None),
        })
    }

    /// The socket is there: from now on it is closed when the session ends. If it ended meanwhile: why.
    pub(super) fn fill(&self, socket: &Arc<Socket>) -> Option<ClosedReason> {
        let early = self.early.lock();
        let _ = self.socket.set(Arc::downgrade(socket));
        *early
    }

    /// The socket, if it is there. If it is not yet, it will hear when it is.
    fn find(&self, reason: ClosedReason) -> Option<Arc<Socket>> {
        let mut early = self.early.lock();
        match self.socket.get() {
            Some(socket) => socket.upgrade(),
            None => {
                early.get_or_insert(reason);
                None
            }
        }
    }
}

impl Ending for Slot {
    fn ended(&self, reason: Reason) {
        let reason = ClosedReason::from(reason);
        if let Some(socket) = self.find(reason)
            && let Some(gateway) = self.gateway.upgrade()
        {
            gateway.close(&socket, reason);
        }
    }
}

impl From<Reason> for ClosedReason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Blocked => Self::Blocked,
            Reason::Logout => Self::Logout,
            Reason::Replaced => Self::Replaced,
        }
    }
}
