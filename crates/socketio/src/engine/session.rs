//! One client of Engine.IO, over polling or WebSocket.
//!
//! Invariant: [`SessionHandler::on_close`] is called exactly once, and never from within a call that sends or closes.

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

/// Time that a closing session has to send its last bytes and to complete the close handshake.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
const SID_SECRET_LEN: usize = 12;

/// One client, from its first request until it is closed.
pub struct EngineIoSession<U: SessionHandler> {
    engine: Arc<EngineIoServer<U>>,
    client: Arc<Client>,
    state: U::State,
    out: Mutex<TransportState>,
    place: SessionLocation,
    /// Tick of the oldest unanswered ping, 0 if there is none.
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

    /// The client, as described by its first request.
    pub fn client_info(&self) -> &Arc<Client> {
        &self.client
    }

    /// State that the handler keeps for the session.
    pub fn state(&self) -> &U::State {
        &self.state
    }

    /// Server of the session.
    pub fn engine(&self) -> &Arc<EngineIoServer<U>> {
        &self.engine
    }

    /// The `sid`. It is secret: whichever client sends it controls the session.
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

    /// Parses a `sid`, without the prefix of the node, into the location and the secret.
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

    /// Queues an encoded frame. If the send queue exceeds its limit, the session is aborted.
    pub(crate) fn send_frame(self: &Arc<Self>, parcel: &Arc<EncodedFrame>) {
        let mut out = self.out.lock();
        if !out.enqueue(parcel, self.engine.options().max_send_queue_bytes) {
            self.engine.count_send_queue_overflow();
            self.start_cleanup_if_polling(&out);
        }
    }

    /// Sends the queue and a close packet, then closes the session. No effect if the session is closing already.
    pub fn close(self: &Arc<Self>, reason: DisconnectReason) {
        self.begin_close(End::Flush(reason));
    }

    /// Closes the session without sending the queue.
    pub fn abort(self: &Arc<Self>, reason: DisconnectReason) {
        self.begin_close(End::Cut(reason));
    }

    /// True until a close begins. Later packets are dropped.
    pub fn is_open(&self) -> bool {
        self.out.lock().close_mode.is_none()
    }

    /// Reason of the close, if it has begun.
    pub(crate) fn close_reason(&self) -> Option<DisconnectReason> {
        self.out.lock().close_mode.map(End::reason)
    }

    /// Bytes in the send queue.
    pub(crate) fn send_queue_bytes(&self) -> usize {
        self.out.lock().send_queue_bytes()
    }

    /// True if more than half of the send queue limit is in use on a WebSocket. The server then stops reading the
    /// client.
    pub(super) fn is_send_queue_congested(&self) -> bool {
        let out = self.out.lock();
        out.active == TransportKind::WebSocket
            && out.send_queue_bytes() > self.engine.options().max_send_queue_bytes / 2
    }

    fn begin_close(self: &Arc<Self>, end: End) {
        let mut out = self.out.lock();
        match (out.close_mode, end) {
            (None, _) => {}
            // A graceful close can be turned into an abort; the connection task, or the cleanup task of a polling
            // session, sees the new mode.
            (Some(End::Flush(reason)), End::Cut(_)) => return out.set_close_mode(End::Cut(reason)),
            _ => return,
        }
        out.set_close_mode(end);
        self.start_cleanup_if_polling(&out);
    }

    /// The connection task finishes a WebSocket session. A polling session has no task, so one is spawned.
    fn start_cleanup_if_polling(self: &Arc<Self>, out: &TransportState) {
        if out.active == TransportKind::WebSocket {
            return;
        }
        self.spawn_cleanup();
    }

    /// Spawns a task that reports the close, gives a polling client `CLOSE_TIMEOUT` to fetch its packets and removes
    /// the session.
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

    /// True if a polling client has not fetched all packets yet.
    fn has_unfetched_packets(&self) -> bool {
        let out = self.out.lock();
        out.poll_in_progress || (out.accepts_polls() && !out.is_send_queue_empty())
    }

    /// Reports the close to the handler, once.
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

    /// Sends a ping. The ping timeout starts with the oldest unanswered ping.
    pub(super) fn send_ping(self: &Arc<Self>, tick: u32, ping: &Arc<EncodedFrame>) {
        let _ = self
            .pinged
            .compare_exchange(0, tick, Ordering::Relaxed, Ordering::Relaxed);
        self.send_frame(ping);
    }

    /// Tick of the oldest unanswered ping; 0 if there is none.
    pub(super) fn unanswered_ping_tick(&self) -> u32 {
        self.pinged.load(Ordering::Relaxed)
    }

    /// True if a ping is unanswered for `timeout_ticks`. False while the inbox is full, because then the pong is not
    /// read.
    pub(super) fn is_ping_overdue(&self, tick: u32, patience: u32) -> bool {
        let pinged = self.pinged.load(Ordering::Relaxed);
        pinged != 0
            && tick.wrapping_sub(pinged) >= patience
            && !self.engine.handler().is_inbox_full(self)
    }

    /// Handles a packet of the client. Returns false if the next one must wait for
    /// [`SessionHandler::poll_inbox_ready`].
    pub(super) fn handle_packet(self: &Arc<Self>, packet: EngineIoPacket<'_>) -> bool {
        // Every packet shows that the client is alive.
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

    /// Body of the response to a poll.
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
        // Without the `sid`, which is secret.
        f.debug_struct("EngineIoSession")
            .field("location", &self.place)
            .finish_non_exhaustive()
    }
}
