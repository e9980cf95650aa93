//! A socket: one client in one namespace.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use rand::RngExt as _;

use super::detached_sockets::DetachedSockets;
use super::encoded_event::encode_message;
use super::layer::SocketIoLayer;
use super::replay_buffer::ReplayBuffer;
use super::{EncodedEvent, SocketHandler};
use crate::engine_io::{EncodedFrame, EngineIoSession};
use crate::packet::encode::{encode_ack, encode_disconnect};
use crate::packet::socket_io::MAIN_NAMESPACE;
use crate::{ClientInfo, DisconnectReason, RecoveryOptions};

const PID_SECRET_LEN: usize = 14;

/// A client that is connected to a namespace, or detached and recoverable.
pub struct Socket<H: SocketHandler> {
    state: H::State,
    client_info: Arc<ClientInfo>,
    detached_sockets: Arc<DetachedSockets<H>>,
    /// `None` for the main namespace.
    namespace: Option<Box<str>>,
    socket_state: Mutex<SocketState<H>>,
    pub(super) registry_index: u32,
    id: SocketSid,
    pid_secret: [u8; PID_SECRET_LEN],
}

/// Mutable state of a socket.
pub(super) struct SocketState<H: SocketHandler> {
    pub(super) session: Option<Arc<EngineIoSession<SocketIoLayer<H>>>>,
    pub(super) replay_buffer: Option<Box<ReplayBuffer>>,
    pub(super) status: SocketStatus,
    /// Reason with which the handler disconnected the socket.
    pub(super) requested_disconnect: Option<DisconnectReason>,
}

impl<H: SocketHandler> SocketState<H> {
    /// Frames after the last one that the client received. `None` if some of them were dropped.
    pub(super) fn missed_frames(&self, offset: Option<u64>) -> Option<Vec<Arc<EncodedFrame>>> {
        match &self.replay_buffer {
            Some(replay_buffer) => replay_buffer.frames_after(offset),
            None => offset.is_none().then(Vec::new),
        }
    }
}

/// Status of a socket; it decides what happens to events sent to the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketStatus {
    /// The CONNECT reply is not queued yet. Events are dropped.
    Created,
    /// `on_connected` is running, and no other callback is called until it returns. Events are queued and buffered.
    Connecting,
    /// The client is connected. Events are queued and buffered.
    Connected,
    /// Stored in `DetachedSockets` under this key, for this reason. Events are buffered.
    Detached { key: u64, reason: DisconnectReason },
    /// Owned by one task, which recovers, detaches or ends the socket. Events are buffered.
    InTransition,
    /// The socket has ended. Events are dropped.
    Disconnected,
}

/// Public id: 15 random bytes in base64.
#[derive(Clone, Copy)]
pub(super) struct SocketSid([u8; 20]);

impl SocketSid {
    pub(super) fn random() -> Self {
        let mut id = [0; 20];
        let raw: [u8; 15] = rand::rng().random();
        // 15 bytes are exactly 20 base64 characters.
        let _ = URL_SAFE_NO_PAD.encode_slice(raw, &mut id);
        Self(id)
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl<H: SocketHandler> Socket<H> {
    pub(super) fn new(
        state: H::State,
        id: SocketSid,
        namespace: &str,
        client_info: Arc<ClientInfo>,
        detached_sockets: Arc<DetachedSockets<H>>,
        registry_index: u32,
    ) -> Self {
        Self {
            state,
            client_info,
            detached_sockets,
            namespace: (namespace != MAIN_NAMESPACE).then(|| namespace.into()),
            socket_state: Mutex::new(SocketState {
                session: None,
                replay_buffer: None,
                status: SocketStatus::Created,
                requested_disconnect: None,
            }),
            registry_index,
            id,
            pid_secret: rand::rng().random(),
        }
    }

    /// Public id of the socket.
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// State that the application keeps for the socket.
    pub fn state(&self) -> &H::State {
        &self.state
    }

    /// Namespace, with its leading slash.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(MAIN_NAMESPACE)
    }

    pub(super) fn lock_state(&self) -> MutexGuard<'_, SocketState<H>> {
        self.socket_state.lock()
    }

    /// Recovery options, if the socket is recoverable.
    pub(super) fn recovery_options(&self) -> Option<&RecoveryOptions> {
        let recovery = self.detached_sockets.recovery.as_ref();
        recovery.filter(|_| self.client_info.supports_recovery)
    }

    /// Secret by which the client recovers the socket, if it is recoverable.
    pub(super) fn pid(&self) -> Option<String> {
        self.recovery_options()?;
        let mut raw = [0; 4 + PID_SECRET_LEN];
        raw[..4].copy_from_slice(&self.registry_index.to_be_bytes());
        raw[4..].copy_from_slice(&self.pid_secret);
        Some(URL_SAFE_NO_PAD.encode(raw))
    }

    /// Registry index that a pid contains.
    pub(super) fn registry_index_of_pid(pid: &str) -> Option<u32> {
        let mut raw = [0; 4 + PID_SECRET_LEN];
        let length = URL_SAFE_NO_PAD.decode_slice(pid, &mut raw).ok()?;
        raw[..length]
            .first_chunk()
            .map(|index| u32::from_be_bytes(*index))
    }

    /// Queues an event. Never waits: if the send queue exceeds its limit, the session is aborted.
    pub fn send(&self, event: &EncodedEvent) {
        let mut socket_state = self.lock_state();
        if matches!(
            socket_state.status,
            SocketStatus::Created | SocketStatus::Disconnected
        ) {
            return;
        }
        let recovery = self.recovery_options();
        let frame = match recovery {
            Some(_) => Arc::clone(&event.0),
            None => event.0.without_offset(),
        };
        let frame = match &self.namespace {
            None => frame,
            Some(namespace) => Arc::new(frame.for_namespace(namespace)),
        };
        if frame.recovery_offset != 0
            && let Some(recovery) = recovery
        {
            socket_state
                .replay_buffer
                .get_or_insert_with(|| {
                    Box::new(ReplayBuffer::new(&self.detached_sockets.replay_budget))
                })
                .push(&frame, recovery);
        }
        if let Some(session) = &socket_state.session {
            session.send_frame(&frame);
        }
    }

    /// Acknowledges an event. `args` is JSON text separated by commas.
    pub fn ack(&self, ack_id: u64, args: &[u8]) {
        self.ack_with_attachments(ack_id, args, &[]);
    }

    /// Same as [`Socket::ack`], with attachments.
    pub fn ack_with_attachments(&self, ack_id: u64, args: &[u8], attachments: &[Bytes]) {
        let namespace = self.namespace();
        let frame = encode_message(namespace.len() + args.len(), attachments, |out| {
            encode_ack(out, namespace, ack_id, args, attachments.len());
        });
        if let Some(session) = &self.lock_state().session {
            session.send_frame(&Arc::new(frame));
        }
    }

    /// Sends the send queue and a DISCONNECT packet, then closes the session. With [`DisconnectReason::ServerShutdown`]
    /// there is no DISCONNECT packet, so that the client reconnects by itself. A detached socket ends at the next tick
    /// of the timers.
    pub fn disconnect(&self, reason: DisconnectReason) {
        let mut socket_state = self.lock_state();
        match socket_state.status {
            SocketStatus::Connecting | SocketStatus::Connected => {
                let Some(session) = &socket_state.session else {
                    return;
                };
                if reason != DisconnectReason::ServerShutdown {
                    let namespace = self.namespace();
                    let frame = encode_message(namespace.len(), &[], |out| {
                        encode_disconnect(out, namespace);
                    });
                    session.send_frame(&Arc::new(frame));
                }
                session.close(reason);
                // The session may have been closed for another reason, and the client may recover the socket before it
                // is detached.
                if !reason.is_recoverable() {
                    socket_state.requested_disconnect.get_or_insert(reason);
                }
            }
            SocketStatus::Detached { key, .. } => {
                socket_state.status = SocketStatus::InTransition;
                self.detached_sockets.end_on_next_tick(key, reason);
            }
            SocketStatus::InTransition => socket_state.requested_disconnect = Some(reason),
            SocketStatus::Created | SocketStatus::Disconnected => {}
        }
    }

    /// Bytes in the send queue of its session, which may have several sockets. 0 after the session began to close,
    /// because the client may not fetch the rest.
    pub fn send_queue_bytes(&self) -> usize {
        let socket_state = self.lock_state();
        match &socket_state.session {
            Some(session) if session.is_open() => session.send_queue_bytes(),
            _ => 0,
        }
    }
}

impl<H: SocketHandler> fmt::Debug for Socket<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket")
            .field("id", &self.id())
            .field("namespace", &self.namespace())
            .finish_non_exhaustive()
    }
}
