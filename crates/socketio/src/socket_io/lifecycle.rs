//! End of a socket: detached from a closed session, held for recovery, disconnected.
//!
//! Invariants:
//! 1. A socket leaves its session once, and is then held or ended by the code that took it.
//! 2. No lock is held while the handler is called.

use std::sync::Arc;

use super::layer::SocketIoLayer;
use super::session_state::ClosedSockets;
use super::socket::SocketStatus;
use super::{Socket, SocketHandler};
use crate::DisconnectReason;
use crate::engine_io::EngineIoSession;

impl<H: SocketHandler> SocketIoLayer<H> {
    /// Detaches a socket from its closed session, and holds or ends it.
    fn detach_socket(
        &self,
        socket: &Arc<Socket<H>>,
        session: &Arc<EngineIoSession<Self>>,
        reason: DisconnectReason,
    ) {
        {
            let mut socket_state = socket.lock_state();
            let current = socket_state.session.as_ref();
            // The socket may belong to another session already.
            if !current.is_some_and(|it| Arc::ptr_eq(it, session)) {
                return;
            }
            socket_state.session = None;
            let before = std::mem::replace(&mut socket_state.status, SocketStatus::InTransition);
            // `finish_connect` continues when `on_connected` has returned.
            if before == SocketStatus::Connecting {
                return;
            }
        }
        self.hold_or_end(socket, reason);
    }

    pub(super) fn detach_sockets(
        &self,
        session: &Arc<EngineIoSession<Self>>,
        sockets: &ClosedSockets<H>,
    ) {
        for (socket, reason) in sockets {
            self.detach_socket(socket, session, *reason);
        }
    }

    /// Detaches the sockets of a session if it is closed.
    pub(super) fn detach_sockets_of_closed_session(&self, session: &Arc<EngineIoSession<Self>>) {
        let sockets = session.state().lock().take_closed_sockets();
        self.detach_sockets(session, &sockets);
    }

    /// Holds a socket in transition for recovery, or ends it.
    fn hold_or_end(&self, socket: &Arc<Socket<H>>, reason: DisconnectReason) {
        let reason = socket.lock_state().requested_disconnect.unwrap_or(reason);
        if socket.recovery_options().is_none() || !reason.is_recoverable() {
            return self.end_socket(socket, reason);
        }
        self.handler.on_detached(socket, reason);
        self.hold_for_recovery(socket, self.detached_sockets.new_deadline(), reason);
    }

    /// `on_connected` has returned: the socket is connected, or its loss is reported if the session has closed
    /// meanwhile.
    pub(super) fn finish_connect(
        &self,
        socket: &Arc<Socket<H>>,
        session: &Arc<EngineIoSession<Self>>,
    ) {
        {
            let mut socket_state = socket.lock_state();
            if socket_state.status == SocketStatus::Connecting {
                socket_state.status = SocketStatus::Connected;
                return;
            }
        }
        let reason = session.state().lock().close_reason;
        self.hold_or_end(socket, reason.unwrap_or(DisconnectReason::TransportClosed));
    }

    /// Detaches a socket in transition. Ends it if the maximum is reached or the handler has disconnected it.
    pub(super) fn hold_for_recovery(
        &self,
        socket: &Arc<Socket<H>>,
        deadline: u64,
        reason: DisconnectReason,
    ) {
        let end_reason = {
            let mut socket_state = socket.lock_state();
            if socket_state.status == SocketStatus::Disconnected {
                return;
            }
            match socket_state.requested_disconnect {
                Some(requested) => requested,
                None => match self.detached_sockets.insert(socket, deadline) {
                    Some(key) => {
                        socket_state.status = SocketStatus::Detached { key, reason };
                        return;
                    }
                    None => reason,
                },
            }
        };
        self.end_socket(socket, end_reason);
    }

    /// Ends a socket. Only the first call notifies the handler.
    pub(super) fn end_socket(&self, socket: &Arc<Socket<H>>, reason: DisconnectReason) {
        {
            let mut socket_state = socket.lock_state();
            if socket_state.status == SocketStatus::Disconnected {
                return;
            }
            socket_state.status = SocketStatus::Disconnected;
            socket_state.session = None;
            socket_state.replay_buffer = None;
        }
        self.registry.remove(socket);
        self.handler.on_disconnected(socket, reason);
    }

    /// Ends the detached sockets whose recovery window is over, and those that the handler has disconnected.
    pub(super) fn end_expired_sockets(&self) {
        for (socket, requested) in self.detached_sockets.take_expired() {
            let detach_reason = match socket.lock_state().status {
                SocketStatus::Detached { reason, .. } => reason,
                _ => DisconnectReason::TransportClosed,
            };
            self.end_socket(&socket, requested.unwrap_or(detach_reason));
        }
    }

    /// Ends all sockets without an open session: detached ones, and those of closed sessions that still drain their
    /// inbox.
    pub(super) fn end_sockets_without_session(&self) {
        for socket in self.detached_sockets.close() {
            self.end_socket(&socket, DisconnectReason::ServerShutdown);
        }
        let mut draining = Vec::new();
        self.registry.for_each(|socket| {
            let socket_state = socket.lock_state();
            let session = socket_state.session.as_ref();
            let is_session_closed = session.is_some_and(|session| !session.is_open());
            if socket_state.status == SocketStatus::Connected && is_session_closed {
                draining.push(Arc::clone(socket));
            }
        });
        for socket in draining {
            self.end_socket(&socket, DisconnectReason::ServerShutdown);
        }
    }
}
