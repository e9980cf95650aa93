//! Recovery of a socket by a client that reconnects.
//!
//! Invariant: a socket has at most one claim. A claim that is dropped without a decision returns the socket to the
//! detached sockets, with its old deadline.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::encoded_event::parse_offset;
use super::layer::SocketIoLayer;
use super::socket::SocketStatus;
use super::{Socket, SocketHandler};
use crate::DisconnectReason;
use crate::engine_io::{EncodedFrame, EngineIoSession};

/// Fields that the JavaScript client adds to `auth` when it reconnects.
#[derive(Deserialize)]
struct RecoveryCredentials<'a> {
    #[serde(borrow)]
    pid: Cow<'a, str>,
    #[serde(borrow, default)]
    offset: Option<Cow<'a, str>>,
}

pub(super) struct RecoveryClaim<H: SocketHandler> {
    layer: Arc<SocketIoLayer<H>>,
    pub(super) socket: Arc<Socket<H>>,
    /// Offset of the last event that the client received; `None` if it received none.
    offset: Option<u64>,
    deadline: u64,
    reason: DisconnectReason,
    is_resolved: bool,
}

impl<H: SocketHandler> SocketIoLayer<H> {
    /// Claims the socket that a client wants to recover, if it exists and all missed events are in its replay buffer.
    pub(super) fn claim_for_recovery(
        self: &Arc<Self>,
        namespace: &str,
        auth: Option<&RawValue>,
    ) -> Option<RecoveryClaim<H>> {
        self.detached_sockets.recovery?;
        let auth = auth?.get();
        // Most clients recover nothing; their `auth` is not parsed.
        if !auth.contains("\"pid\"") {
            return None;
        }
        let credentials: RecoveryCredentials<'_> = serde_json::from_str(auth).ok()?;
        let offset = match &credentials.offset {
            Some(offset) => Some(parse_offset(offset)?),
            None => None,
        };
        let socket = self
            .registry
            .get(Socket::<H>::registry_index_of_pid(&credentials.pid)?)?;
        let is_meant =
            socket.namespace() == namespace && socket.pid().as_deref() == Some(&credentials.pid);
        if !is_meant {
            return None;
        }
        let (deadline, reason, old_session) = {
            let mut socket_state = socket.lock_state();
            match socket_state.status {
                SocketStatus::Detached { key, reason } => {
                    let deadline = self.detached_sockets.remove(key)?;
                    socket_state.status = SocketStatus::InTransition;
                    (deadline, reason, None)
                }
                // The client has noticed the lost connection before the server.
                SocketStatus::Connected => {
                    socket_state.status = SocketStatus::InTransition;
                    (
                        self.detached_sockets.new_deadline(),
                        DisconnectReason::ReplacedByReconnect,
                        socket_state.session.take(),
                    )
                }
                SocketStatus::Created
                | SocketStatus::Connecting
                | SocketStatus::InTransition
                | SocketStatus::Disconnected => return None,
            }
        };
        if let Some(old_session) = old_session {
            old_session.state().lock().remove_socket(&socket);
            old_session.close(DisconnectReason::ReplacedByReconnect);
            self.handler
                .on_detached(&socket, DisconnectReason::ReplacedByReconnect);
        }
        let claim = RecoveryClaim {
            layer: Arc::clone(self),
            socket,
            offset,
            deadline,
            reason,
            is_resolved: false,
        };
        let can_replay = claim.socket.lock_state().missed_frames(offset).is_some();
        if !can_replay {
            claim.discard();
            return None;
        }
        Some(claim)
    }
}

impl<H: SocketHandler> RecoveryClaim<H> {
    /// Ends the socket, because the client gets a new one.
    pub(super) fn discard(mut self) {
        self.is_resolved = true;
        self.layer
            .end_socket(&self.socket, DisconnectReason::ReplacedByReconnect);
    }

    /// Connects the socket to the session and queues the missed events. If they are not complete any more, or too large
    /// for the send queue, or the handler has disconnected the socket, ends the socket and returns false. If the
    /// session has closed meanwhile, the socket stays detached.
    pub(super) fn resume_on(mut self, session: &Arc<EngineIoSession<SocketIoLayer<H>>>) -> bool {
        let max_bytes = session.engine().options().max_send_queue_bytes;
        let connect_packet = super::connect::encode_connect_packet(&self.socket);
        {
            let mut session_state = session.state().lock();
            if session_state.close_reason.is_some() {
                drop(session_state);
                // The handler has accepted the recovery, so the loss is reported again.
                self.layer.handler.on_detached(&self.socket, self.reason);
                return true;
            }
            let mut socket_state = self.socket.lock_state();
            let missed = socket_state.missed_frames(self.offset);
            // A replay above the limit of the send queue would abort every session that recovers this socket.
            let fits = |missed: &Vec<Arc<EncodedFrame>>| {
                let size: usize = missed.iter().map(|frame| frame.bytes().len()).sum();
                session.send_queue_bytes() + connect_packet.bytes().len() + size <= max_bytes
            };
            match missed
                .filter(fits)
                .filter(|_| socket_state.requested_disconnect.is_none())
            {
                Some(missed) => {
                    session.send_frame(&connect_packet);
                    missed.iter().for_each(|frame| session.send_frame(frame));
                    socket_state.session = Some(Arc::clone(session));
                    socket_state.status = SocketStatus::Connected;
                    session_state.sockets.push(Arc::clone(&self.socket));
                    self.is_resolved = true;
                }
                None => {
                    drop(socket_state);
                    drop(session_state);
                    self.discard();
                    return false;
                }
            }
        }
        self.layer.recovered_total.fetch_add(1, Ordering::Relaxed);
        true
    }
}

impl<H: SocketHandler> Drop for RecoveryClaim<H> {
    fn drop(&mut self) {
        if !self.is_resolved {
            self.layer
                .hold_for_recovery(&self.socket, self.deadline, self.reason);
        }
    }
}
