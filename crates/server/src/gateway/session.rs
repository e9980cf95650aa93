//! What tells a socket that its session has ended.
//!
//! Always true: it is told also when that happens before the socket is there.

use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use parlor_chat::sessions::{Attachment, Ended, Reason};

use super::words::ClosedReason;
use super::{Gateway, Socket};

/// What tells a socket that its session has ended, for as long as it is kept.
pub(super) struct Line {
    pub(super) slot: Arc<Slot>,
    /// None of a service.
    pub(super) _attached: Option<Attachment>,
}

/// The way to a socket from before it is there.
#[derive(Default)]
pub(super) struct Slot {
    socket: OnceLock<Weak<Socket>>,
    /// Why it is to be closed, if that came first.
    early: Mutex<Option<ClosedReason>>,
}

impl Slot {
    /// What is called when the session ends.
    pub(super) fn ended(self: &Arc<Self>, gateway: &Arc<Gateway>) -> Ended {
        let (gateway, slot) = (Arc::downgrade(gateway), Arc::clone(self));
        Arc::new(move |reason| {
            let reason = ClosedReason::from(reason);
            if let Some(socket) = slot.find(reason)
                && let Some(gateway) = gateway.upgrade()
            {
                gateway.close(&socket, reason);
            }
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

impl From<Reason> for ClosedReason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Blocked => Self::Blocked,
            Reason::Logout => Self::Logout,
            Reason::Replaced => Self::Replaced,
        }
    }
}
