//! One client of Engine.IO, whatever carries its packets.
//!
//! Always true: the layer above is told of the end exactly once, and never from within a call that sends or closes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use parking_lot::Mutex;
use rand::RngExt as _;

use super::out::{End, Out, Transport};
use super::parcel::Parcel;
use super::table::Place;
use super::{Above, Engine};
use crate::packet::engine::Packet;
use crate::{Client, Reason};

/// How long a client that is sent away may take to read what waits for it.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
const SECRET: usize = 12;

/// A session: from the first request of a client to its goodbye.
pub struct Session<U: Above> {
    engine: Arc<Engine<U>>,
    client: Arc<Client>,
    state: U::State,
    out: Mutex<Out>,
    place: Place,
    /// The tick of the first ping that was not answered yet, 0 if all were.
    pinged: AtomicU32,
    secret: [u8; SECRET],
}

impl<U: Above> Session<U> {
    pub(super) fn new(
        engine: Arc<Engine<U>>,
        client: Arc<Client>,
        transport: Transport,
        place: Place,
    ) -> Self {
        Self {
            engine,
            client,
            state: U::State::default(),
            out: Mutex::new(Out::new(transport)),
            place,
            pinged: AtomicU32::new(0),
            secret: rand::rng().random(),
        }
    }

    /// Who it is.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// What the layer above keeps of it.
    pub fn state(&self) -> &U::State {
        &self.state
    }

    /// The engine it belongs to.
    pub fn engine(&self) -> &Arc<Engine<U>> {
        &self.engine
    }

    /// Its secret id: who knows it may speak for the client.
    #[must_use]
    pub fn id(&self) -> String {
        let mut raw = [0; 6 + SECRET];
        raw[..2].copy_from_slice(&self.place.phase.to_be_bytes());
        raw[2..6].copy_from_slice(&self.place.index.to_be_bytes());
        raw[6..].copy_from_slice(&self.secret);
        let mut id = String::from_utf8_lossy(&self.engine.options().node).into_owned();
        URL_SAFE_NO_PAD.encode_string(raw, &mut id);
        id
    }

    /// The place that an id names, and the secret that goes with it.
    pub(super) fn named(id: &str) -> Option<(Place, [u8; SECRET])> {
        let mut raw = [0; 6 + SECRET];
        let length = URL_SAFE_NO_PAD.decode_slice(id, &mut raw).ok()?;
        let (&phase, rest) = raw[..length].split_first_chunk()?;
        let (&index, secret) = rest.split_first_chunk()?;
        let place = Place {
            phase: u16::from_be_bytes(phase),
            index: u32::from_be_bytes(index),
        };
        Some((place, secret.try_into().ok()?))
    }

    pub(super) fn is_named(&self, secret: &[u8; SECRET]) -> bool {
        self.secret == *secret
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }

    pub(super) fn out(&self) -> &Mutex<Out> {
        &self.out
    }

    /// Sends a text message.
    pub fn send_text(self: &Arc<Self>, text: &str) {
        let parcel = Parcel::packet(1 + text.len(), &[], |out| Packet::Message(text).write(out));
        self.push(&Arc::new(parcel));
    }

    /// Sends a binary message.
    pub fn send_binary(self: &Arc<Self>, bytes: &Bytes) {
        self.push(&Arc::new(Parcel::of(crate::frame::write::binary(bytes))));
    }

    /// Queues a parcel. A client that lets too much wait is cut.
    pub(crate) fn push(self: &Arc<Self>, parcel: &Arc<Parcel>) {
        let mut out = self.out.lock();
        if !out.push(parcel, self.engine.options().buffer) {
            self.engine.count_cut();
            self.ended(&out);
        }
    }

    /// Sends what waits, tells the client, and ends the session. Does nothing to one that ends already.
    pub fn close(self: &Arc<Self>, reason: Reason) {
        self.end(End::Flush(reason));
    }

    /// Ends the session at once.
    pub fn cut(self: &Arc<Self>, reason: Reason) {
        self.end(End::Cut(reason));
    }

    /// Whether packets for it still go out.
    pub fn is_open(&self) -> bool {
        self.out.lock().end.is_none()
    }

    /// Why it ends, if it does.
    pub(crate) fn ends(&self) -> Option<Reason> {
        self.out.lock().end.map(End::reason)
    }

    /// Bytes that wait for the client.
    pub(crate) fn queued(&self) -> usize {
        self.out.lock().bytes()
    }

    /// Whether so much waits for the client that it should read before it asks for more.
    pub(super) fn is_clogged(&self) -> bool {
        let out = self.out.lock();
        out.transport == Transport::WebSocket && out.bytes() > self.engine.options().buffer / 2
    }

    fn end(self: &Arc<Self>, end: End) {
        let mut out = self.out.lock();
        match (out.end, end) {
            (None, _) => {}
            // Who was given time to read can still be cut; the task that waits for it sees to that.
            (Some(End::Flush(reason)), End::Cut(_)) => return out.finish(End::Cut(reason)),
            _ => return,
        }
        out.finish(end);
        self.ended(&out);
    }

    /// A WebSocket's own task sees to its end; polling has none.
    fn ended(self: &Arc<Self>, out: &Out) {
        if out.transport == Transport::WebSocket {
            return;
        }
        self.finish_later();
    }

    /// Tells and removes it from a task of its own, after a polling client had the time to fetch what waits.
    pub(super) fn finish_later(self: &Arc<Self>) {
        let session = Arc::clone(self);
        self.engine.spawn(async move {
            session.tell();
            let deadline = tokio::time::Instant::now() + PATIENCE;
            while session.has_waiting() && tokio::time::Instant::now() < deadline {
                tokio::time::sleep(PATIENCE / 100).await;
            }
            session.engine.remove(&session);
        });
    }

    /// Whether a polling client has still to fetch something.
    fn has_waiting(&self) -> bool {
        let out = self.out.lock();
        out.polling || (out.is_fetchable() && !out.is_empty())
    }

    /// Tells the layer above of the end, once.
    pub(super) fn tell(self: &Arc<Self>) {
        let reason = {
            let mut out = self.out.lock();
            let Some(end) = out.end else { return };
            if std::mem::replace(&mut out.told, true) {
                return;
            }
            end.reason()
        };
        tracing::debug!(reason = reason.name(), "a session ends");
        self.engine.above().closed(self, reason);
    }

    /// The time for a ping.
    pub(super) fn ping(self: &Arc<Self>, tick: u32, ping: &Arc<Parcel>) {
        let _ = self
            .pinged
            .compare_exchange(0, tick, Ordering::Relaxed, Ordering::Relaxed);
        self.push(ping);
    }

    /// The tick of the ping that waits for an answer; 0 if none does.
    pub(super) fn pinged(&self) -> u32 {
        self.pinged.load(Ordering::Relaxed)
    }

    /// Whether a ping was not answered for so many ticks. One whose packets are not read now is not asked.
    pub(super) fn is_late(&self, tick: u32, patience: u32) -> bool {
        let pinged = self.pinged.load(Ordering::Relaxed);
        pinged != 0 && tick.wrapping_sub(pinged) >= patience && !self.engine.above().is_full(self)
    }

    /// Takes a packet of the client. False if the next must wait for [`Above::poll_room`].
    pub(super) fn receive(self: &Arc<Self>, packet: Packet<'_>) -> bool {
        // Whatever comes shows that the client is there.
        self.pinged.store(0, Ordering::Relaxed);
        let above = self.engine.above();
        match packet {
            Packet::Message(text) => return above.text(self, text),
            Packet::Binary(bytes) => return above.binary(self, Bytes::from(bytes.into_owned())),
            Packet::Pong(_) => above.alive(self),
            Packet::Close => self.close(Reason::ClientLeft),
            Packet::Upgrade | Packet::Noop => {}
            Packet::Open(_) | Packet::Ping(_) => self.close(Reason::BadPacket),
        }
        true
    }

    /// What a waiting polling request is answered with.
    pub(super) fn poll_payload(&self, cx: &mut Context<'_>) -> Poll<Vec<u8>> {
        const NOOP: &[u8] = b"6";
        let mut out = self.out.lock();
        let mut body = Vec::new();
        if out.transport == Transport::Polling {
            out.payload(self.engine.options().max_payload, &mut body);
            match out.end {
                Some(End::Flush(reason)) if reason != Reason::ClientLeft && out.is_empty() => {
                    Packet::Close.join(&mut body);
                }
                None if body.is_empty() && !out.probed => {
                    out.waker = Some(cx.waker().clone());
                    out.awake = false;
                    return Poll::Pending;
                }
                _ => {}
            }
        }
        out.said = out.end.is_some() && out.is_empty();
        if body.is_empty() {
            body.extend_from_slice(NOOP);
        }
        Poll::Ready(body)
    }
}

impl<U: Above> fmt::Debug for Session<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the id, which is a secret.
        f.debug_struct("Session")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
