//! Engine.IO v4: sessions over polling and WebSocket, and a layer above them that takes their messages.
//!
//! Always true:
//! 1. An idle session owns no buffer and no timer: pings come from one task for all.
//! 2. A session is in the table from its first request until its end was told and its last bytes are gone or given up.

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

/// The layer that takes the messages of sessions. Its calls must not block.
pub trait SessionHandler: Send + Sync + Sized + 'static {
    /// What it keeps of a session.
    type State: Default + Send + Sync + 'static;

    /// A session has begun.
    fn opened(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>) {
        let _ = session;
    }

    /// A text message. False if the next is to wait until [`Above::poll_room`] is ready.
    fn text(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>, text: &str) -> bool;

    /// A binary message; the same.
    fn on_binary(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>, bytes: Bytes) -> bool;

    /// Ready when a message may come.
    fn poll_inbox_ready(
        self: &Arc<Self>,
        session: &Arc<EngineIoSession<Self>>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let _ = (session, cx);
        Poll::Ready(())
    }

    /// Whether messages wait for room: then the client cannot be heard, and is not asked for signs of life.
    fn is_inbox_full(&self, session: &EngineIoSession<Self>) -> bool {
        let _ = session;
        false
    }

    /// The client has answered a ping.
    fn on_pong(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>) {
        let _ = session;
    }

    /// The connect timeout has passed since the session was opened or [`Engine::watch`] was called.
    fn on_connect_deadline(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>) {
        let _ = session;
    }

    /// A tick of the timers.
    fn on_tick(self: &Arc<Self>) {}

    /// The session has ended; exactly once.
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
    /// An engine without sessions.
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
            // No tick is 0, which says that nothing was pinged.
            current_tick: AtomicU32::new(1),
            stopped_accepting: AtomicBool::new(false),
            send_queue_overflows: AtomicU64::new(0),
        })
    }

    /// The layer above.
    pub fn handler(&self) -> &Arc<U> {
        &self.above
    }

    /// The settings.
    pub fn options(&self) -> &SocketIoOptions {
        &self.options
    }

    /// Whether a request with this path is for it.
    pub fn matches_path(&self, path: &str) -> bool {
        path.strip_prefix(self.options.path.as_str())
            .is_some_and(|rest| matches!(rest, "" | "/"))
    }

    /// A new session, if there is room for one.
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

    /// The first packet of a session.
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

    /// From now on new sessions are refused with 503; open ones go on.
    pub fn stop_accepting(&self) {
        self.stopped_accepting.store(true, Ordering::Relaxed);
    }

    /// Ends all sessions. Returns when all are gone, at the latest shortly after `patience`: who is left then is cut.
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

    /// What it counts now.
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

/// How long those take to go that are cut.
const ABORT_TIMEOUT: Duration = Duration::from_millis(500);

/// Calls `each` outside of the table's locks.
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
