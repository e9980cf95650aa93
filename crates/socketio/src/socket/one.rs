//! One socket: a client in one namespace.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use rand::RngExt as _;

use super::ring::Ring;
use super::shelf::Shelf;
use super::{Frame, frame};
use crate::engine::Parcel;
use crate::packet::socket::ROOT;
use crate::packet::write;
use crate::{Client, Reason, Recovery};

const SECRET: usize = 14;

/// The session that a socket sends by.
pub(super) trait Lane<S>: Send + Sync {
    fn carry(self: Arc<Self>, parcel: &Arc<Parcel>);
    fn dismiss(self: Arc<Self>, reason: Reason);
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
    shelf: Arc<Shelf<S>>,
    /// Absent for the root.
    namespace: Option<Box<str>>,
    link: Mutex<Link<S>>,
    number: u32,
    id: Id,
    secret: [u8; SECRET],
}

/// What changes of a socket.
pub(super) struct Link<S> {
    pub(super) lane: Option<Arc<dyn Lane<S>>>,
    pub(super) ring: Option<Box<Ring>>,
    pub(super) status: Status,
    /// Ended by the application.
    pub(super) doomed: Option<Reason>,
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
    Held(u64, Reason),
    /// Kept; off the shelf, in somebody's hands.
    Claimed,
    /// Dropped.
    Over,
}

/// A public id: 15 random bytes in base64.
#[derive(Clone, Copy)]
pub(super) struct Id([u8; 20]);

impl Id {
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
        id: Id,
        namespace: &str,
        client: Arc<Client>,
        shelf: Arc<Shelf<S>>,
        number: u32,
    ) -> Self {
        Self {
            state,
            client,
            shelf,
            namespace: (namespace != ROOT).then(|| namespace.into()),
            link: Mutex::new(Link {
                lane: None,
                ring: None,
                status: Status::New,
                doomed: None,
            }),
            number,
            id,
            secret: rand::rng().random(),
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
        self.namespace.as_deref().unwrap_or(ROOT)
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn link(&self) -> MutexGuard<'_, Link<S>> {
        self.link.lock()
    }

    /// How it may come back, if it can.
    pub(super) fn recovery(&self) -> Option<&Recovery> {
        let recovery = self.shelf.recovery.as_ref();
        recovery.filter(|_| self.client.keeps_offset)
    }

    /// The secret by which a client comes back, if it may.
    pub(super) fn pid(&self) -> Option<String> {
        self.recovery()?;
        let mut raw = [0; 4 + SECRET];
        raw[..4].copy_from_slice(&self.number.to_be_bytes());
        raw[4..].copy_from_slice(&self.secret);
        Some(URL_SAFE_NO_PAD.encode(raw))
    }

    /// The number in a pid.
    pub(super) fn number_in(pid: &str) -> Option<u32> {
        let mut raw = [0; 4 + SECRET];
        let length = URL_SAFE_NO_PAD.decode_slice(pid, &mut raw).ok()?;
        raw[..length]
            .first_chunk()
            .map(|number| u32::from_be_bytes(*number))
    }

    /// Queues a frame. Never waits: a client that lets too much wait is cut.
    pub fn send(&self, frame: &Frame) {
        let mut link = self.link.lock();
        if matches!(link.status, Status::New | Status::Over) {
            return;
        }
        let recovery = self.recovery();
        let parcel = match recovery {
            Some(_) => Arc::clone(&frame.0),
            None => frame.0.without_offset(),
        };
        let parcel = match &self.namespace {
            None => parcel,
            Some(namespace) => Arc::new(parcel.within(namespace)),
        };
        if parcel.offset != 0
            && let Some(bounds) = recovery
        {
            link.ring
                .get_or_insert_with(|| Box::new(Ring::new(&self.shelf.account)))
                .push(&parcel, bounds, self.shelf.kept);
        }
        if let Some(lane) = &link.lane {
            Arc::clone(lane).carry(&parcel);
        }
    }

    /// Answers an event, with the arguments as JSON texts and commas between them.
    pub fn ack(&self, id: u64, args: &[u8]) {
        self.ack_binary(id, args, &[]);
    }

    /// The same, with attachments.
    pub fn ack_binary(&self, id: u64, args: &[u8], attachments: &[Bytes]) {
        let parcel = frame::ack(self.namespace(), id, args, attachments);
        if let Some(lane) = &self.link.lock().lane {
            Arc::clone(lane).carry(&parcel);
        }
    }

    /// Sends what is queued, then tells the client that the server disconnects it (but for [`Reason::Shutdown`], after which it may
    /// come back by itself) and closes the connection. One that is held is given up.
    pub fn disconnect(&self, reason: Reason) {
        let mut link = self.link.lock();
        match link.status {
            Status::Entering | Status::Live => {
                let Some(lane) = &link.lane else { return };
                if reason != Reason::Shutdown {
                    let namespace = self.namespace();
                    let goodbye =
                        frame::packet(namespace.len(), |out| write::disconnect(out, namespace));
                    Arc::clone(lane).carry(&goodbye);
                }
                Arc::clone(lane).dismiss(reason);
                // The connection may have ended already, and its client may be back before it has.
                if !reason.is_accident() {
                    link.doomed.get_or_insert(reason);
                }
            }
            Status::Held(key, _) => {
                link.status = Status::Claimed;
                self.shelf.doom(key, reason);
            }
            Status::Claimed => link.doomed = Some(reason),
            Status::New | Status::Over => {}
        }
    }

    /// Bytes that wait for its client now, on the connection that it may share with others.
    pub fn queued(&self) -> usize {
        let link = self.link.lock();
        link.lane.as_ref().map_or(0, |lane| lane.waiting())
    }

    /// Whether it has a connection now.
    pub fn is_connected(&self) -> bool {
        let link = self.link.lock();
        link.lane.as_ref().is_some_and(|lane| lane.is_there())
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
