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

use super::out::{End, TransportKind, TransportState};
use super::parcel::EncodedFrame;
use super::table::SessionLocation;
use super::{EngineIoServer, SessionHandler};
use crate::packet::engine::EngineIoPacket;
use crate::{Client, DisconnectReason};

/// How long a client that is sent away may take to read what waits for it.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
const SID_SECRET_LEN: usize = 12;

/// A session: from the first request of a client to its goodbye.
pub struct EngineIoSession<U: SessionHandler> {
    engine: Arc<EngineIoServer<U>>,
    client: Arc<Client>,
    state: U::State,
    out: Mutex<TransportState>,
    place: SessionLocation,
    /// The tick of the first ping that was not answered yet, 0 if all were.
    pinged: AtomicU32,
    sid_secret: [u8; SID_SECRET_LEN],
}

impl<U: SessionHandler> EngineIoSession<U> {
    pub(super) fn new(
        engine: Arc<EngineIoServer<U>>,
        client: Arc<Client>,
        transport: TransportKind,
        place: SessionLocation,
    ) -> Self {
        Self {
            engine,
            client,
            state: U::State::default(),
            out: Mutex::new(TransportState::new(transport)),
            place,
            pinged: AtomicU32::new(0),
            sid_secret: rand::rng().random(),
        }
    }

    /// Who it is.
    pub fn client_info(&self) -> &Arc<Client> {
        &self.client
    }

    /// What the layer above keeps of it.
    pub fn state(&self) -> &U::State {
        &self.state
    }

    /// The engine it belongs to.
    pub fn engine(&self) -> &Arc<EngineIoServer<U>> {
        &self.engine
    }

    /// Its secret id: who knows it may speak for the client.
    #[must_use]
    pub fn sid(&self) -> String {
        let mut raw = [0; 6 + SID_SECRET_LEN];
        raw[..2].copy_from_slice(&self.place.bucket.to_be_bytes());
        raw[2..6].copy_from_slice(&self.place.index.to_be_bytes());
        raw[6..].copy_from_slice(&self.sid_secret);
        let mut id = String::from_utf8_lossy(&self.engine.options().node).into_owned();
        URL_SAFE_NO_PAD.encode_string(raw, &mut id);
        id
    }

    /// The place that an id names, and the secret that goes with it.
    pub(super) fn parse_sid(id: &str) -> Option<(SessionLocation, [u8; SID_SECRET_LEN])> {
        let mut raw = [0; 6 + SID_SECRET_LEN];
        let length = URL_SAFE_NO_PAD.decode_slice(id, &mut raw).ok()?;
        let (&phase, rest) = raw[..length].split_first_chunk()?;
        let (&index, secret) = rest.split_first_chunk()?;
        let place = SessionLocation {
            bucket: u16::from_be_bytes(phase),
            index: u32::from_be_bytes(index),
        };
        Some((place, secret.try_into().ok()?))
    }

    pub(super) fn has_secret(&self, secret: &[u8; SID_SECRET_LEN]) -> bool {
        self.sid_secret == *secret
    }

    pub(super) fn location(&self) -> SessionLocation {
        self.place
    }

    pub(super) fn transport_state(&self) -> &Mutex<TransportState> {
        &self.out
    }

    /// Sends a text message.
    pub fn send_text(self: &Arc<Self>, text: &str) {
        let parcel = EncodedFrame::encode_packet(1 + text.len(), &[], |out| {
            EngineIoPacket::Message(text).write(out)
        });
        self.send_frame(&Arc::new(parcel));
    }

    /// Sends a binary message.
    pub fn send_binary(self: &Arc<Self>, bytes: &Bytes) {
        self.send_frame(&Arc::new(EncodedFrame::from_bytes(
            crate::frame::write::encode_binary(bytes),
        )));
    }

    /// Queues a parcel. A client that lets too much wait is cut.
    pub(crate) fn send_frame(self: &Arc<Self>, parcel: &Arc<EncodedFrame>) {
        let mut out = self.out.lock();
        if !out.enqueue(parcel, self.engine.options().max_send_queue_bytes) {
            self.engine.count_send_queue_overflow();
            self.start_cleanup_if_polling(&out);
        }
    }

    /// Sends what waits, tells the client, and ends the session. Does nothing to one that ends already.
    pub fn close(self: &Arc<Self>, reason: DisconnectReason) {
        self.begin_close(End::Flush(reason));
    }

    /// Ends the session at once.
    pub fn abort(self: &Arc<Self>, reason: DisconnectReason) {
        self.begin_close(End::Cut(reason));
    }

    /// Whether packets for it still go out.
    pub fn is_open(&self) -> bool {
        self.out.lock().close_mode.is_none()
    }

    /// Why it ends, if it does.
    pub(crate) fn close_reason(&self) -> Option<DisconnectReason> {
        self.out.lock().close_mode.map(End::reason)
    }

    /// Bytes that wait for the client.
    pub(crate) fn send_queue_bytes(&self) -> usize {
        self.out.lock().send_queue_bytes()
    }

    /// Whether so much waits for the client that it should read before it asks for more.
    pub(super) fn is_send_queue_congested(&self) -> bool {
        let out = self.out.lock();
        out.active == TransportKind::WebSocket
            && out.send_queue_bytes() > self.engine.options().max_send_queue_bytes / 2
    }

    fn begin_close(self: &Arc<Self>, end: End) {
        let mut out = self.out.lock();
        match (out.close_mode, end) {
            (None, _) => {}
            // Who was given time to read can still be cut; the task that waits for it sees to that.
            (Some(End::Flush(reason)), End::Cut(_)) => return out.set_close_mode(End::Cut(reason)),
            _ => return,
        }
        out.set_close_mode(end);
        self.start_cleanup_if_polling(&out);
    }

    /// A WebSocket's own task sees to its end; polling has none.
    fn start_cleanup_if_polling(self: &Arc<Self>, out: &TransportState) {
        if out.active == TransportKind::WebSocket {
            return;
        }
        self.spawn_cleanup();
    }

    /// Tells and removes it from a task of its own, after a polling client had the time to fetch what waits.
    pub(super) fn spawn_cleanup(self: &Arc<Self>) {
        let session = Arc::clone(self);
        self.engine.spawn(async move {
            session.report_close();
            let deadline = tokio::time::Instant::now() + CLOSE_TIMEOUT;
            while session.has_unfetched_packets() && tokio::time::Instant::now() < deadline {
                tokio::time::sleep(CLOSE_TIMEOUT / 100).await;
            }
            session.engine.remove_session(&session);
        });
    }

    /// Whether a polling client has still to fetch something.
    fn has_unfetched_packets(&self) -> bool {
        let out = self.out.lock();
        out.poll_in_progress || (out.accepts_polls() && !out.is_send_queue_empty())
    }

    /// Tells the layer above of the end, once.
    pub(super) fn report_close(self: &Arc<Self>) {
        let reason = {
            let mut out = self.out.lock();
            let Some(end) = out.close_mode else { return };
            if std::mem::replace(&mut out.close_reported, true) {
                return;
            }
            end.reason()
        };
        tracing::debug!(reason = reason.name(), "session closed");
        self.engine.handler().on_close(self, reason);
    }

    /// The time for a ping.
    pub(super) fn send_ping(self: &Arc<Self>, tick: u32, ping: &Arc<EncodedFrame>) {
        let _ = self
            .pinged
            .compare_exchange(0, tick, Ordering::Relaxed, Ordering::Relaxed);
        self.send_frame(ping);
    }

    /// The tick of the ping that waits for an answer; 0 if none does.
    pub(super) fn unanswered_ping_tick(&self) -> u32 {
        self.pinged.load(Ordering::Relaxed)
    }

    /// Whether a ping was not answered for so many ticks. One whose packets are not read now is not asked.
    pub(super) fn is_ping_overdue(&self, tick: u32, patience: u32) -> bool {
        let pinged = self.pinged.load(Ordering::Relaxed);
        pinged != 0
            && tick.wrapping_sub(pinged) >= patience
            && !self.engine.handler().is_inbox_full(self)
    }

    /// Takes a packet of the client. False if the next must wait for [`Above::poll_room`].
    pub(super) fn handle_packet(self: &Arc<Self>, packet: EngineIoPacket<'_>) -> bool {
        // Whatever comes shows that the client is there.
        self.pinged.store(0, Ordering::Relaxed);
        let above = self.engine.handler();
        match packet {
            EngineIoPacket::Message(text) => return above.text(self, text),
            EngineIoPacket::Binary(bytes) => {
                return above.on_binary(self, Bytes::from(bytes.into_owned()));
            }
            EngineIoPacket::Pong(_) => above.on_pong(self),
            EngineIoPacket::Close => self.close(DisconnectReason::ClientDisconnect),
            EngineIoPacket::Upgrade | EngineIoPacket::Noop => {}
            EngineIoPacket::Open(_) | EngineIoPacket::Ping(_) => {
                self.close(DisconnectReason::ProtocolError)
            }
        }
        true
    }

    /// What a waiting polling request is answered with.
    pub(super) fn poll_polling_body(&self, cx: &mut Context<'_>) -> Poll<Vec<u8>> {
        const NOOP: &[u8] = b"6";
        let mut out = self.out.lock();
        let mut body = Vec::new();
        if out.active == TransportKind::Polling {
            out.drain_into_polling_body(self.engine.options().max_payload, &mut body);
            match out.close_mode {
                Some(End::Flush(reason))
                    if reason != DisconnectReason::ClientDisconnect
                        && out.is_send_queue_empty() =>
                {
                    EngineIoPacket::Close.join(&mut body);
                }
                None if body.is_empty() && !out.probed => {
                    out.writer_waker = Some(cx.waker().clone());
                    out.writer_is_awake = false;
                    return Poll::Pending;
                }
                _ => {}
            }
        }
        out.close_packet_sent = out.close_mode.is_some() && out.is_send_queue_empty();
        if body.is_empty() {
            body.extend_from_slice(NOOP);
        }
        Poll::Ready(body)
    }
}

impl<U: SessionHandler> fmt::Debug for EngineIoSession<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the id, which is a secret.
        f.debug_struct("EngineIoSession")
            .field("location", &self.place)
            .finish_non_exhaustive()
    }
}
