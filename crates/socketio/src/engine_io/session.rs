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

use super::encoded_frame::EncodedFrame;
use super::session_table::SessionLocation;
use super::transport_state::{CloseMode, TransportKind, TransportState, UpgradeState};
use super::{EngineIoServer, SessionHandler};
use crate::packet::engine_io::EngineIoPacket;
use crate::websocket::encode_binary;
use crate::{ClientInfo, DisconnectReason};

/// Time that a closing session has to send its last bytes and to complete the close handshake.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
const SID_SECRET_LEN: usize = 12;

/// One client, from its first request until it is closed.
pub struct EngineIoSession<H: SessionHandler> {
    engine: Arc<EngineIoServer<H>>,
    client_info: Arc<ClientInfo>,
    state: H::State,
    pub(super) transport_state: Mutex<TransportState>,
    pub(super) location: SessionLocation,
    /// Tick of the oldest unanswered ping, 0 if there is none.
    unanswered_ping_tick: AtomicU32,
    sid_secret: [u8; SID_SECRET_LEN],
}

impl<H: SessionHandler> EngineIoSession<H> {
    pub(super) fn new(
        engine: Arc<EngineIoServer<H>>,
        client_info: Arc<ClientInfo>,
        transport: TransportKind,
        location: SessionLocation,
    ) -> Self {
        Self {
            engine,
            client_info,
            state: H::State::default(),
            transport_state: Mutex::new(TransportState::new(transport)),
            location,
            unanswered_ping_tick: AtomicU32::new(0),
            sid_secret: rand::rng().random(),
        }
    }

    /// The client, as described by its first request.
    pub fn client_info(&self) -> &Arc<ClientInfo> {
        &self.client_info
    }

    /// State that the handler keeps for the session.
    pub fn state(&self) -> &H::State {
        &self.state
    }

    /// Server of the session.
    pub fn engine(&self) -> &Arc<EngineIoServer<H>> {
        &self.engine
    }

    /// The `sid`. It is secret: whichever client sends it controls the session.
    pub fn sid(&self) -> String {
        let mut raw = [0; 6 + SID_SECRET_LEN];
        raw[..2].copy_from_slice(&self.location.bucket.to_be_bytes());
        raw[2..6].copy_from_slice(&self.location.index.to_be_bytes());
        raw[6..].copy_from_slice(&self.sid_secret);
        let mut sid = String::from_utf8_lossy(&self.engine.options().sid_prefix).into_owned();
        URL_SAFE_NO_PAD.encode_string(raw, &mut sid);
        sid
    }

    /// Parses a `sid`, without the prefix of the node, into the location and the secret.
    pub(super) fn parse_sid(sid: &str) -> Option<(SessionLocation, [u8; SID_SECRET_LEN])> {
        let mut raw = [0; 6 + SID_SECRET_LEN];
        let length = URL_SAFE_NO_PAD.decode_slice(sid, &mut raw).ok()?;
        let (&bucket, rest) = raw[..length].split_first_chunk()?;
        let (&index, secret) = rest.split_first_chunk()?;
        let location = SessionLocation {
            bucket: u16::from_be_bytes(bucket),
            index: u32::from_be_bytes(index),
        };
        Some((location, secret.try_into().ok()?))
    }

    pub(super) fn has_secret(&self, secret: &[u8; SID_SECRET_LEN]) -> bool {
        self.sid_secret == *secret
    }

    /// Sends a text message.
    pub fn send_text(self: &Arc<Self>, text: &str) {
        let frame = EncodedFrame::encode_packet(1 + text.len(), &[], |out| {
            EngineIoPacket::Message(text).encode(out);
        });
        self.send_frame(&Arc::new(frame));
    }

    /// Sends a binary message.
    pub fn send_binary(self: &Arc<Self>, bytes: &Bytes) {
        self.send_frame(&Arc::new(EncodedFrame::from_bytes(encode_binary(bytes))));
    }

    /// Queues an encoded frame. If the send queue exceeds its limit, the session is aborted.
    pub(crate) fn send_frame(self: &Arc<Self>, frame: &Arc<EncodedFrame>) {
        let mut transport = self.transport_state.lock();
        if !transport.enqueue(frame, self.engine.options().max_send_queue_bytes) {
            self.engine.count_send_queue_overflow();
            self.start_cleanup_if_polling(&transport);
        }
    }

    /// Sends the queue and a close packet, then closes the session. No effect if the session is closing already.
    pub fn close(self: &Arc<Self>, reason: DisconnectReason) {
        self.begin_close(CloseMode::Graceful(reason));
    }

    /// Closes the session without sending the queue.
    pub fn abort(self: &Arc<Self>, reason: DisconnectReason) {
        self.begin_close(CloseMode::Abort(reason));
    }

    /// True until a close begins. Later packets are dropped.
    pub fn is_open(&self) -> bool {
        self.transport_state.lock().close_mode.is_none()
    }

    /// Reason of the close, if it has begun.
    pub(crate) fn close_reason(&self) -> Option<DisconnectReason> {
        self.transport_state
            .lock()
            .close_mode
            .map(CloseMode::reason)
    }

    /// Bytes in the send queue.
    pub(crate) fn send_queue_bytes(&self) -> usize {
        self.transport_state.lock().send_queue_bytes()
    }

    /// True if more than half of the send queue limit is in use on a WebSocket. The server then stops reading the
    /// client.
    pub(super) fn is_send_queue_congested(&self) -> bool {
        let transport = self.transport_state.lock();
        transport.active == TransportKind::WebSocket
            && transport.send_queue_bytes() > self.engine.options().max_send_queue_bytes / 2
    }

    fn begin_close(self: &Arc<Self>, mode: CloseMode) {
        let mut transport = self.transport_state.lock();
        match (transport.close_mode, mode) {
            (None, _) => {}
            // A graceful close can be turned into an abort; the connection task, or the cleanup task of a polling
            // session, sees the new mode.
            (Some(CloseMode::Graceful(reason)), CloseMode::Abort(_)) => {
                return transport.set_close_mode(CloseMode::Abort(reason));
            }
            _ => return,
        }
        transport.set_close_mode(mode);
        self.start_cleanup_if_polling(&transport);
    }

    /// The connection task finishes a WebSocket session. A polling session has no task, so one is spawned.
    fn start_cleanup_if_polling(self: &Arc<Self>, transport: &TransportState) {
        if transport.active == TransportKind::WebSocket {
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
        let transport = self.transport_state.lock();
        transport.poll_in_progress
            || (transport.accepts_polls() && !transport.is_send_queue_empty())
    }

    /// Reports the close to the handler, once.
    pub(super) fn report_close(self: &Arc<Self>) {
        let reason = {
            let mut transport = self.transport_state.lock();
            let Some(mode) = transport.close_mode else {
                return;
            };
            if std::mem::replace(&mut transport.close_reported, true) {
                return;
            }
            mode.reason()
        };
        tracing::debug!(?reason, "session closed");
        self.engine.handler().on_close(self, reason);
    }

    /// Sends a ping. The ping timeout starts with the oldest unanswered ping.
    pub(super) fn send_ping(self: &Arc<Self>, tick: u32, ping_frame: &Arc<EncodedFrame>) {
        let _ = self.unanswered_ping_tick.compare_exchange(
            0,
            tick,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        self.send_frame(ping_frame);
    }

    /// Tick of the oldest unanswered ping; 0 if there is none.
    pub(super) fn unanswered_ping_tick(&self) -> u32 {
        self.unanswered_ping_tick.load(Ordering::Relaxed)
    }

    /// True if a ping is unanswered for `timeout_ticks`. False while the inbox is full, because then the pong is not
    /// read.
    pub(super) fn is_ping_overdue(&self, tick: u32, timeout_ticks: u32) -> bool {
        let ping_tick = self.unanswered_ping_tick.load(Ordering::Relaxed);
        ping_tick != 0
            && tick.wrapping_sub(ping_tick) >= timeout_ticks
            && !self.engine.handler().is_inbox_full(self)
    }

    /// Handles a packet of the client. Returns false if the next one must wait for
    /// [`SessionHandler::poll_inbox_ready`].
    pub(super) fn handle_packet(self: &Arc<Self>, packet: EngineIoPacket<'_>) -> bool {
        // Every packet shows that the client is alive.
        self.unanswered_ping_tick.store(0, Ordering::Relaxed);
        let handler = self.engine.handler();
        match packet {
            EngineIoPacket::Message(text) => return handler.on_text(self, text),
            EngineIoPacket::Binary(bytes) => {
                return handler.on_binary(self, Bytes::from(bytes.into_owned()));
            }
            EngineIoPacket::Pong(_) => handler.on_pong(self),
            EngineIoPacket::Close => self.close(DisconnectReason::ClientDisconnect),
            EngineIoPacket::Upgrade | EngineIoPacket::Noop => {}
            EngineIoPacket::Open(_) | EngineIoPacket::Ping(_) => {
                self.close(DisconnectReason::ProtocolError);
            }
        }
        true
    }

    /// Body of the response to a poll.
    pub(super) fn poll_polling_body(&self, cx: &mut Context<'_>) -> Poll<Vec<u8>> {
        const NOOP: &[u8] = b"6";
        let mut transport = self.transport_state.lock();
        let mut body = Vec::new();
        if transport.active == TransportKind::Polling {
            transport.drain_into_polling_body(self.engine.options().max_payload, &mut body);
            match transport.close_mode {
                Some(CloseMode::Graceful(reason))
                    if reason != DisconnectReason::ClientDisconnect
                        && transport.is_send_queue_empty() =>
                {
                    EngineIoPacket::Close.append_to_polling_body(&mut body);
                }
                None if body.is_empty() && transport.upgrade != UpgradeState::Probed => {
                    transport.writer_waker = Some(cx.waker().clone());
                    transport.writer_is_awake = false;
                    return Poll::Pending;
                }
                _ => {}
            }
        }
        transport.close_packet_sent =
            transport.close_mode.is_some() && transport.is_send_queue_empty();
        if body.is_empty() {
            body.extend_from_slice(NOOP);
        }
        Poll::Ready(body)
    }
}

impl<H: SessionHandler> fmt::Debug for EngineIoSession<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the `sid`, which is secret.
        f.debug_struct("EngineIoSession")
            .field("location", &self.location)
            .finish_non_exhaustive()
    }
}
