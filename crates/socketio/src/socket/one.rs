//! A socket: one client in one namespace.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use rand::RngExt as _;

use super::ring::ReplayBuffer;
use super::shelf::DetachedSockets;
use super::{EncodedEvent, frame};
use crate::engine::EncodedFrame;
use crate::packet::socket::MAIN_NAMESPACE;
use crate::packet::write;
use crate::{Client, DisconnectReason, RecoveryOptions};

const PID_SECRET_LEN: usize = 14;

/// Session that a socket sends through.
pub(super) trait Lane<S>: Send + Sync {
    fn carry(self: Arc<Self>, parcel: &Arc<EncodedFrame>);
    fn dismiss(self: Arc<Self>, reason: DisconnectReason);
    /// Releases a socket that moved to another session, and closes this session.
    fn replace(self: Arc<Self>, socket: &Arc<Socket<S>>);
    fn is_there(&self) -> bool;
    /// Bytes in the send queue.
    fn waiting(&self) -> usize;
}

/// A client that is connected to a namespace, or detached and recoverable.
pub struct Socket<S> {
    state: S,
    client: Arc<Client>,
    detached_sockets: Arc<DetachedSockets<S>>,
    /// `None` for the main namespace.
    namespace: Option<Box<str>>,
    link: Mutex<SocketState<S>>,
    number: u32,
    id: SocketSid,
    pid_secret: [u8; PID_SECRET_LEN],
}

/// Mutable state of a socket.
pub(super) struct SocketState<S> {
    pub(super) session: Option<Arc<dyn Lane<S>>>,
    pub(super) replay_buffer: Option<Box<ReplayBuffer>>,
    pub(super) status: Status,
    /// Reason with which the handler disconnected the socket.
    pub(super) requested_disconnect: Option<DisconnectReason>,
}

/// Status of a socket; it decides what happens to events sent to the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// The CONNECT reply is not queued yet. Events are dropped.
    New,
    /// `on_connected` is running, and no other callback is called until it returns. Events are queued and buffered.
    Entering,
    /// The client is connected. Events are queued and buffered.
    Live,
    /// Stored in `DetachedSockets` under this key, for this reason. Events are buffered.
    Held(u64, DisconnectReason),
    /// Owned by one task, which recovers, detaches or ends the socket. Events are buffered.
    Claimed,
    /// The socket has ended. Events are dropped.
    Over,
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

impl<S> Socket<S> {
    pub(super) fn new(
        state: S,
        id: SocketSid,
        namespace: &str,
        client: Arc<Client>,
        detached_sockets: Arc<DetachedSockets<S>>,
        number: u32,
    ) -> Self {
        Self {
            state,
            client,
            detached_sockets,
            namespace: (namespace != MAIN_NAMESPACE).then(|| namespace.into()),
            link: Mutex::new(SocketState {
                session: None,
                replay_buffer: None,
                status: Status::New,
                requested_disconnect: None,
            }),
            number,
            id,
            pid_secret: rand::rng().random(),
        }
    }

    /// Public id of the socket.
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// State that the application keeps for the socket.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The client, as described by the first request of the session that created the socket.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Namespace, with its leading slash.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(MAIN_NAMESPACE)
    }

    pub(super) fn registry_index(&self) -> u32 {
        self.number
    }

    pub(super) fn lock_state(&self) -> MutexGuard<'_, SocketState<S>> {
        self.link.lock()
    }

    /// Recovery options, if the socket is recoverable.
    pub(super) fn recovery_options(&self) -> Option<&RecoveryOptions> {
        let recovery = self.detached_sockets.recovery.as_ref();
        recovery.filter(|_| self.client.supports_recovery)
    }

    /// Secret by which the client recovers the socket, if it is recoverable.
    pub(super) fn pid(&self) -> Option<String> {
        self.recovery_options()?;
        let mut raw = [0; 4 + PID_SECRET_LEN];
        raw[..4].copy_from_slice(&self.number.to_be_bytes());
        raw[4..].copy_from_slice(&self.pid_secret);
        Some(URL_SAFE_NO_PAD.encode(raw))
    }

    /// Registry index that a pid contains.
    pub(super) fn registry_index_of_pid(pid: &str) -> Option<u32> {
        let mut raw = [0; 4 + PID_SECRET_LEN];
        let length = URL_SAFE_NO_PAD.decode_slice(pid, &mut raw).ok()?;
        raw[..length]
            .first_chunk()
            .map(|number| u32::from_be_bytes(*number))
    }

    /// Queues an event. Never waits: if the send queue exceeds its limit, the session is aborted.
    pub fn send(&self, frame: &EncodedEvent) {
        let mut link = self.link.lock();
        if matches!(link.status, Status::New | Status::Over) {
            return;
        }
        let recovery = self.recovery_options();
        let parcel = match recovery {
            Some(_) => Arc::clone(&frame.0),
            None => frame.0.without_offset(),
        };
        let parcel = match &self.namespace {
            None => parcel,
            Some(namespace) => Arc::new(parcel.for_namespace(namespace)),
        };
        if parcel.recovery_offset != 0
            && let Some(bounds) = recovery
        {
            link.replay_buffer
                .get_or_insert_with(|| {
                    Box::new(ReplayBuffer::new(&self.detached_sockets.replay_budget))
                })
                .push(&parcel, bounds, self.detached_sockets.kept);
        }
        if let Some(lane) = &link.session {
            Arc::clone(lane).carry(&parcel);
        }
    }

    /// Acknowledges an event. `args` is JSON text separated by commas.
    pub fn ack(&self, id: u64, args: &[u8]) {
        self.ack_with_attachments(id, args, &[]);
    }

    /// Same as [`Socket::ack`], with attachments.
    pub fn ack_with_attachments(&self, id: u64, args: &[u8], attachments: &[Bytes]) {
        let parcel = frame::encode_ack(self.namespace(), id, args, attachments);
        if let Some(lane) = &self.link.lock().session {
            Arc::clone(lane).carry(&parcel);
        }
    }

    /// Sends the send queue and a DISCONNECT packet, then closes the session. With [`DisconnectReason::ServerShutdown`]
    /// there is no DISCONNECT packet, so that the client reconnects by itself. A detached socket ends at the next tick
    /// of the timers.
    pub fn disconnect(&self, reason: DisconnectReason) {
        let mut link = self.link.lock();
        match link.status {
            Status::Entering | Status::Live => {
                let Some(lane) = &link.session else { return };
                if reason != DisconnectReason::ServerShutdown {
                    let namespace = self.namespace();
                    let goodbye = frame::encode_packet(namespace.len(), |out| {
                        write::encode_disconnect(out, namespace)
                    });
                    Arc::clone(lane).carry(&goodbye);
                }
                Arc::clone(lane).dismiss(reason);
                // The session may have been closed for another reason, and the client may recover the socket before it
                // is detached.
                if !reason.is_recoverable() {
                    link.requested_disconnect.get_or_insert(reason);
                }
            }
            Status::Held(key, _) => {
                link.status = Status::Claimed;
                self.detached_sockets.end_on_next_tick(key, reason);
            }
            Status::Claimed => link.requested_disconnect = Some(reason),
            Status::New | Status::Over => {}
        }
    }

    /// Bytes in the send queue of its session, which may have several sockets.
    pub fn send_queue_bytes(&self) -> usize {
        let link = self.link.lock();
        link.session.as_ref().map_or(0, |lane| lane.waiting())
    }

    /// True if the socket has an open session.
    pub fn is_connected(&self) -> bool {
        let link = self.link.lock();
        link.session.as_ref().is_some_and(|lane| lane.is_there())
    }
}

impl<S> fmt::Debug for Socket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket")
            .field("id", &self.id())
            .field("namespace", &self.namespace())
            .finish_non_exhaustive()
    }
}
