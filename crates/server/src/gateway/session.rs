//! What tells a socket that its session has ended.
//!
//! Always true: it is told also when that happens before the socket is there.

use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use parlor_chat::sessions::{ConnectionRegistration, Ending, SessionEndReason};

use super::words::ClosedReason;
use super::{GatewaySocket, SocketIoGateway};

/// What tells a socket that its session has ended, for as long as it is kept.
pub(super) struct SessionBinding {
    pub(super) slot: Arc<SessionEndCloser>,
    /// None of a service.
    pub(super) _attached: Option<ConnectionRegistration>,
}

/// The way to a socket from before it is there.
pub(super) struct SessionEndCloser {
    gateway: Weak<SocketIoGateway>,
    socket: OnceLock<Weak<GatewaySocket>>,
    /// Why it is to be closed, if that came first.
    ended_early: Mutex<Option<ClosedReason>>,
}

impl SessionEndCloser {
    /// No socket yet.
    pub(super) fn of(gateway: &Arc<SocketIoGateway>) -> Arc<Self> {
        Arc::new(Self {
            gateway: Arc::downgrade(gateway),
            socket: OnceLock::new(),
            ended_early: Mutex::new(None),
        })
    }

    /// The socket is there: from now on it is closed when the session ends. If it ended meanwhile: why.
    pub(super) fn set_socket(&self, socket: &Arc<GatewaySocket>) -> Option<ClosedReason> {
        let early = self.ended_early.lock();
        let _ = self.socket.set(Arc::downgrade(socket));
        *early
    }

    /// The socket, if it is there. If it is not yet, it will hear when it is.
    fn socket_or_remember(&self, reason: ClosedReason) -> Option<Arc<GatewaySocket>> {
        let mut early = self.ended_early.lock();
        match self.socket.get() {
            Some(socket) => socket.upgrade(),
            None => {
                early.get_or_insert(reason);
                None
            }
        }
    }
}

impl Ending for SessionEndCloser {
    fn ended(&self, reason: SessionEndReason) {
        let reason = ClosedReason::from(reason);
        if let Some(socket) = self.socket_or_remember(reason)
            && let Some(gateway) = self.gateway.upgrade()
        {
            gateway.close(&socket, reason);
        }
    }
}

impl From<SessionEndReason> for ClosedReason {
    fn from(reason: SessionEndReason) -> Self {
        match reason {
            SessionEndReason::Blocked => Self::Blocked,
            SessionEndReason::Logout => Self::Logout,
            SessionEndReason::Replaced => Self::Replaced,
        }
    }
}
