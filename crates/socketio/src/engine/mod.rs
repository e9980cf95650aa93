//! Engine.IO v4 server: sessions over polling and WebSocket. A [`SessionHandler`] receives their messages.
//!
//! ```text
//!  GET transport=polling                                     GET transport=websocket, no sid
//!       │ open packet in the response                              │ 101, open packet is the first frame
//!       ▼          GET transport=websocket&sid                     ▼
//!    Polling ────────────▶ Polling + probe ── 2probe, 3probe, 5 ─▶ WebSocket
//!       │ ◀─ probe failed or upgrade_timeout ──┘                   │
//!       ├───────────────────────────────────────┬──────────────────┘
//!       │ close(reason)                         │ abort(reason), or the send queue exceeds its limit
//!       ▼                                       ▼
//!    Closing, Graceful ───── abort() ───────▶ Closing, Abort: the send queue is dropped
//!       │ sends the queue, then a close packet  │
//!       │ for at most CLOSE_TIMEOUT             │       on_close(reason) once, when closing begins
//!       └───────────────────────────────────────┴─────▶ Closed: removed from the SessionTable
//! ```
//!
//! A session is aborted if its TCP connection ends without a close frame. A pending poll returns the rest of the send
//! queue. After a disconnect by the server or a shutdown, further polls are answered until the queue is empty; after
//! other reasons with 400.
//!
//! Invariants:
//! 1. An idle session owns no buffer and no timer: one task pings all sessions.
//! 2. A session is in the table from its first request until its close is reported and its last bytes are sent or
//!    dropped.

mod answer;
mod connection;
mod http;
mod out;
mod parcel;
mod parting;
mod polling;
mod probe;
mod reading;
mod session;
mod table;
mod timers;
mod upgrade;

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::packet::engine::EngineIoPacket;
use crate::{Client, DisconnectReason, SocketIoOptions, SocketIoStats};
use answer::RequestError;
use out::TransportKind;
pub(crate) use parcel::EncodedFrame;
pub use session::EngineIoSession;
use table::SessionTable;

/// Receives the messages of sessions. Its methods must not block.
pub trait SessionHandler: Send + Sync + Sized + 'static {
    /// State that the handler keeps for a session.
    type State: Default + Send + Sync + 'static;

    /// A session was opened.
    fn opened(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>) {
        let _ = session;
    }

    /// A text message arrived. Returns false if the next message must wait until [`SessionHandler::poll_inbox_ready`]
    /// is ready.
    fn text(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>, text: &str) -> bool;

    /// A binary message arrived. Returns the same as [`SessionHandler::on_text`].
    fn on_binary(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>, bytes: Bytes) -> bool;

    /// Ready when the inbox has room for a message.
    fn poll_inbox_ready(
        self: &Arc<Self>,
        session: &Arc<EngineIoSession<Self>>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let _ = (session, cx);
        Poll::Ready(())
    }

    /// True if the inbox is full. Then the client is not read, so an unanswered ping does not count.
    fn is_inbox_full(&self, session: &EngineIoSession<Self>) -> bool {
        let _ = session;
        false
    }

    /// The client answered a ping.
    fn on_pong(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>) {
        let _ = session;
    }

    /// The connect timeout has passed since the session was opened or
    /// [`start_connect_deadline`](crate::engine_io::EngineIoServer::start_connect_deadline) was called.
    fn on_connect_deadline(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>) {
        let _ = session;
    }

    /// Called at each tick of the timers.
    fn on_tick(self: &Arc<Self>) {}

    /// The session has closed. Called exactly once per session.
    fn on_close(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>, reason: DisconnectReason) {
        let _ = (session, reason);
    }
}

/// An Engine.IO server.
#[derive(Debug)]
pub struct EngineIoServer<U: SessionHandler> {
    above: Arc<U>,
    options: SocketIoOptions,
    table: SessionTable<U>,
    sessions_per_address: Mutex<HashMap<IpAddr, usize>>,
    connect_deadlines: Mutex<VecDeque<(Instant, Weak<EngineIoSession<U>>)>>,
    runtime: OnceLock<Handle>,
    ping_frame: Arc<EncodedFrame>,
    current_tick: AtomicU32,
    stopped_accepting: AtomicBool,
    send_queue_overflows: AtomicU64,
}

impl<U: SessionHandler> EngineIoServer<U> {
    /// Creates a server without sessions.
    pub fn new(above: Arc<U>, options: SocketIoOptions) -> Arc<Self> {
        let phases = options.ping_interval.as_secs().clamp(25, 10_000);
        Arc::new(Self {
            above,
            table: SessionTable::new(u16::try_from(phases).expect("clamped to 10,000")),
            options,
            sessions_per_address: Mutex::default(),
            connect_deadlines: Mutex::default(),
            runtime: OnceLock::new(),
            ping_frame: EncodedFrame::from_text("2"),
            // Ticks start at 1: an `unanswered_ping_tick` of 0 means that no ping is unanswered.
            current_tick: AtomicU32::new(1),
            stopped_accepting: AtomicBool::new(false),
            send_queue_overflows: AtomicU64::new(0),
        })
    }

    /// The handler.
    pub fn handler(&self) -> &Arc<U> {
        &self.above
    }

    /// Settings of the server.
    pub fn options(&self) -> &SocketIoOptions {
        &self.options
    }

    /// True if a request with this path belongs to the server.
    pub fn matches_path(&self, path: &str) -> bool {
        path.strip_prefix(self.options.path.as_str())
            .is_some_and(|rest| matches!(rest, "" | "/"))
    }

    /// Opens a session, unless a limit is reached or the server stops.
    fn open_session(
        self: &Arc<Self>,
        client: Client,
        transport: TransportKind,
    ) -> Result<Arc<EngineIoSession<U>>, RequestError> {
        self.runtime.get_or_init(Handle::current);
        if self.has_stopped_accepting() {
            return Err(RequestError::ServerStopping);
        }
        self.reserve_address(client.address)?;
        if !self.table.try_reserve(self.options.max_sessions) {
            self.release_address(client.address);
            return Err(RequestError::TooManySessions);
        }
        let client = Arc::new(client);
        let session = self
            .table
            .insert(self.current_tick.load(Ordering::Relaxed), |place| {
                Arc::new(EngineIoSession::new(
                    Arc::clone(self),
                    client,
                    transport,
                    place,
                ))
            });
        self.start_connect_deadline(&session);
        self.above.opened(&session);
        Ok(session)
    }

    fn reserve_address(&self, address: Option<IpAddr>) -> Result<(), RequestError> {
        let Some(address) = address else {
            return Ok(());
        };
        let mut addresses = self.sessions_per_address.lock();
        let count = addresses.entry(address).or_default();
        if *count >= self.options.max_sessions_per_address {
            return Err(RequestError::TooManySessionsFromAddress);
        }
        *count += 1;
        Ok(())
    }

    fn release_address(&self, address: Option<IpAddr>) {
        let Some(address) = address else { return };
        let mut addresses = self.sessions_per_address.lock();
        if let Some(count) = addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&address);
            }
        }
    }

    fn remove_session(&self, session: &Arc<EngineIoSession<U>>) {
        if self.table.remove(session) {
            self.table.release_reservation();
            self.release_address(session.client_info().address);
        }
    }

    /// Encodes the first packet of a session.
    fn encode_open_packet(&self, session: &EngineIoSession<U>, upgrades: &str) -> Vec<u8> {
        let json = format!(
            r#"{{"sid":"{}","upgrades":[{upgrades}],"pingInterval":{},"pingTimeout":{},"maxPayload":{}}}"#,
            session.sid(),
            self.options.ping_interval.as_millis(),
            self.options.ping_timeout.as_millis(),
            self.options.max_payload,
        );
        let mut packet = Vec::with_capacity(json.len() + 1);
        EngineIoPacket::Open(&json).write(&mut packet);
        packet
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = self.runtime.get() {
            runtime.spawn(task);
        }
    }

    fn count_send_queue_overflow(&self) {
        self.send_queue_overflows.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn has_stopped_accepting(&self) -> bool {
        self.stopped_accepting.load(Ordering::Relaxed)
    }

    /// Rejects new sessions with 503 from now on; open sessions continue.
    pub fn stop_accepting(&self) {
        self.stopped_accepting.store(true, Ordering::Relaxed);
    }

    /// Closes all sessions and returns when they are removed. Sessions that are left after `timeout` are aborted.
    pub async fn close_all_sessions(&self, patience: Duration) {
        self.stop_accepting();
        for_each_session_unlocked(&self.table, |session| {
            session.close(DisconnectReason::ServerShutdown)
        });
        if !self.wait_until_no_sessions(Instant::now() + patience).await {
            for_each_session_unlocked(&self.table, |session| {
                session.abort(DisconnectReason::ServerShutdown)
            });
            self.wait_until_no_sessions(Instant::now() + ABORT_TIMEOUT)
                .await;
        }
    }

    async fn wait_until_no_sessions(&self, deadline: Instant) -> bool {
        while self.table.open_count() > 0 {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(Duration::from_millis(5)).await;
        }
        true
    }

    /// Counters and gauges at this moment.
    pub fn stats(&self) -> SocketIoStats {
        let mut figures = SocketIoStats {
            open_sessions: self.table.open_count(),
            send_queue_overflows_total: self.send_queue_overflows.load(Ordering::Relaxed),
            ..SocketIoStats::default()
        };
        self.table.for_each(|session| {
            let out = session.transport_state().lock();
            figures.send_queue_bytes += out.send_queue_bytes();
            figures.polling_sessions += usize::from(out.active == TransportKind::Polling);
        });
        figures
    }
}

/// Time that aborted sessions have to be removed.
const ABORT_TIMEOUT: Duration = Duration::from_millis(500);

/// Calls `each` outside of the bucket locks.
fn for_each_session_unlocked<U: SessionHandler>(
    table: &SessionTable<U>,
    each: impl Fn(&Arc<EngineIoSession<U>>),
) {
    for phase in 0..table.buckets() {
        let mut sessions = Vec::new();
        table.for_each_in_bucket(phase, |session| sessions.push(Arc::clone(session)));
        sessions.iter().for_each(&each);
    }
}
