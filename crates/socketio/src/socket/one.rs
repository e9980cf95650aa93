//! One socket: a client in one namespace.

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

/// The session that a socket sends by.
pub(super) trait Lane<S>: Send + Sync {
    fn carry(self: Arc<Self>, parcel: &Arc<EncodedFrame>);
    fn dismiss(self: Arc<Self>, reason: DisconnectReason);
    /// Forgets a socket that has found another session, and ends.
    fn replace(self: Arc<Self>, socket: &Arc<Socket<S>>);
    fn is_there(&self) -> bool;
    /// Bytes that wait.
    fn waiting(&self) -> usize;
}

/// A client that is connected to a namespace, or held until it comes back.
pub struct Socket<S> {
    state: S,
    client: Arc<Client>,
    detached_sockets: Arc<DetachedSockets<S>>,
    /// Absent for the root.
    namespace: Option<Box<str>>,
    link: Mutex<SocketState<S>>,
    number: u32,
    id: SocketSid,
    pid_secret: [u8; PID_SECRET_LEN],
}

/// What changes of a socket.
pub(super) struct SocketState<S> {
    pub(super) session: Option<Arc<dyn Lane<S>>>,
    pub(super) replay_buffer: Option<Box<ReplayBuffer>>,
    pub(super) status: Status,
    /// Ended by the application.
    pub(super) requested_disconnect: Option<DisconnectReason>,
}

/// What becomes of frames for a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// Not told yet that it is connected: dropped.
    New,
    /// Sent, and kept. The application is being told of it, and of nothing else until it has been.
    Entering,
    /// Sent, and kept.
    Live,
    /// Kept; on the shelf under this key, for this reason.
    Held(u64, DisconnectReason),
    /// Kept; off the shelf, in somebody's hands.
    Claimed,
    /// Dropped.
    Over,
}

/// A public id: 15 random bytes in base64.
#[derive(Clone, Copy)]
pub(super) struct SocketSid([u8; 20]);

impl SocketSid {
    pub(super) fn random() -> Self {
        let mut id = [0; 20];
        let raw: [u8; 15] = rand::rng().random();
        // 15 bytes are exactly 20 characters.
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

    /// Its public id.
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// What the application keeps of it.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Who it is, by the request that connected it first.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its namespace, with the slash.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(MAIN_NAMESPACE)
    }

    pub(super) fn registry_index(&self) -> u32 {
        self.number
    }

    pub(super) fn lock_state(&self) -> MutexGuard<'_, SocketState<S>> {
        self.link.lock()
    }

    /// How it may come back, if it can.
    pub(super) fn recovery_options(&self) -> Option<&RecoveryOptions> {
        let recovery = self.detached_sockets.recovery.as_ref();
        recovery.filter(|_| self.client.supports_recovery)
    }

    /// The secret by which a client comes back, if it may.
    pub(super) fn pid(&self) -> Option<String> {
        self.recovery_options()?;
        let mut raw = [0; 4 + PID_SECRET_LEN];
        raw[..4].copy_from_slice(&self.number.to_be_bytes());
        raw[4..].copy_from_slice(&self.pid_secret);
        Some(URL_SAFE_NO_PAD.encode(raw))
    }

    /// The number in a pid.
    pub(super) fn registry_index_of_pid(pid: &str) -> Option<u32> {
        let mut raw = [0; 4 + PID_SECRET_LEN];
        let length = URL_SAFE_NO_PAD.decode_slice(pid, &mut raw).ok()?;
        raw[..length]
            .first_chunk()
            .map(|number| u32::from_be_bytes(*number))
    }

    /// Queues a frame. Never waits: a client that lets too much wait is cut.
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

    /// Answers an event, with the arguments as JSON texts and commas between them.
    pub fn ack(&self, id: u64, args: &[u8]) {
        self.ack_with_attachments(id, args, &[]);
    }

    /// The same, with attachments.
    pub fn ack_with_attachments(&self, id: u64, args: &[u8], attachments: &[Bytes]) {
        let parcel = frame::encode_ack(self.namespace(), id, args, attachments);
        if let Some(lane) = &self.link.lock().session {
            Arc::clone(lane).carry(&parcel);
        }
    }

    /// Sends what is queued, then tells the client that the server disconnects it (but for [`Reason::Shutdown`], after which it may
    /// come back by itself) and closes the connection. One that is held is given up.
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
                // The connection may have ended already, and its client may be back before it has.
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

    /// Bytes that wait for its client now, on the connection that it may share with others.
    pub fn send_queue_bytes(&self) -> usize {
        let link = self.link.lock();
        link.session.as_ref().map_or(0, |lane| lane.waiting())
    }

    /// Whether it has a connection now.
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
