//! Registration of a socket for the end of its session. [`SessionEndCloser`] receives the end and closes the socket;
//! `close.rs` has the steps of the close.
//!
//! Invariants:
//! 1. If the session ends during the handshake, the socket is closed as soon as it exists.

use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use parlor_chat::sessions::{ConnectionRegistration, SessionEndHandler, SessionEndReason};

use super::bodies::SessionCloseReason;
use super::{GatewaySocket, SocketIoGateway};

/// Registration of a socket for the end of its session; ends on drop.
pub(super) struct SessionBinding {
    pub(super) closer: Arc<SessionEndCloser>,
    /// `None` for a service.
    pub(super) _registration: Option<ConnectionRegistration>,
}

/// Handler of the session end. It exists before its socket.
pub(super) struct SessionEndCloser {
    gateway: Weak<SocketIoGateway>,
    socket: OnceLock<Weak<GatewaySocket>>,
    /// Reason, if the session ended before the socket was set.
    ended_early: Mutex<Option<SessionCloseReason>>,
}

impl SessionEndCloser {
    /// A handler without a socket.
    pub(super) fn of(gateway: &Arc<SocketIoGateway>) -> Arc<Self> {
        Arc::new(Self {
            gateway: Arc::downgrade(gateway),
            socket: OnceLock::new(),
            ended_early: Mutex::new(None),
        })
    }

    /// Sets the socket that is closed when the session ends. Returns the reason if the session has already ended.
    pub(super) fn set_socket(&self, socket: &Arc<GatewaySocket>) -> Option<SessionCloseReason> {
        let ended_early = self.ended_early.lock();
        let _ = self.socket.set(Arc::downgrade(socket));
        *ended_early
    }

    /// The socket, if it is set. Otherwise stores the reason for [`Self::set_socket`].
    fn socket_or_remember(&self, reason: SessionCloseReason) -> Option<Arc<GatewaySocket>> {
        let mut ended_early = self.ended_early.lock();
        match self.socket.get() {
            Some(socket) => socket.upgrade(),
            None => {
                ended_early.get_or_insert(reason);
                None
            }
        }
    }
}

impl SessionEndHandler for SessionEndCloser {
    fn session_ended(&self, reason: SessionEndReason) {
        let reason = SessionCloseReason::from(reason);
        if let Some(socket) = self.socket_or_remember(reason)
            && let Some(gateway) = self.gateway.upgrade()
        {
            gateway.close(&socket, reason, None);
        }
    }
}

impl From<SessionEndReason> for SessionCloseReason {
    fn from(reason: SessionEndReason) -> Self {
        match reason {
            SessionEndReason::Blocked => Self::Blocked,
            SessionEndReason::Logout => Self::Logout,
            SessionEndReason::Replaced => Self::Replaced,
        }
    }
}
