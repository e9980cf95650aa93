//! Engine.IO server: opens and closes sessions.
//!
//! Invariants:
//! 1. Each session in the table holds one reservation of `max_sessions`, and one of its IP address.
//! 2. After `stop_accepting` no session is opened.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::responses::RequestError;
use super::session_table::SessionTable;
use super::transport_state::TransportKind;
use super::{EncodedFrame, EngineIoSession, SessionHandler};
use crate::packet::engine_io::EngineIoPacket;
use crate::{ClientInfo, DisconnectReason, SocketIoOptions, SocketIoStats};

/// Time that aborted sessions have to be removed.
const ABORT_TIMEOUT: Duration = Duration::from_millis(500);

/// An Engine.IO server.
#[derive(Debug)]
pub struct EngineIoServer<H: SessionHandler> {
    pub(super) handler: Arc<H>,
    pub(super) options: SocketIoOptions,
    pub(super) sessions: SessionTable<H>,
    sessions_per_network: Mutex<HashMap<IpAddr, usize>>,
    pub(super) connect_deadlines: Mutex<VecDeque<(Instant, Weak<EngineIoSession<H>>)>>,
    runtime: OnceLock<Handle>,
    pub(super) ping_frame: Arc<EncodedFrame>,
    pub(super) current_tick: AtomicU32,
    stopped_accepting: AtomicBool,
    send_queue_overflows: AtomicU64,
}

impl<H: SessionHandler> EngineIoServer<H> {
    /// Creates a server without sessions.
    pub fn new(handler: Arc<H>, options: SocketIoOptions) -> Arc<Self> {
        let buckets = options.ping_interval.as_secs().clamp(25, 10_000);
        Arc::new(Self {
            handler,
            sessions: SessionTable::new(u16::try_from(buckets).expect("clamped to 10,000")),
            options,
            sessions_per_network: Mutex::default(),
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
    pub fn handler(&self) -> &Arc<H> {
        &self.handler
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
    pub(super) fn open_session(
        self: &Arc<Self>,
        client: ClientInfo,
        transport: TransportKind,
    ) -> Result<Arc<EngineIoSession<H>>, RequestError> {
        self.runtime.get_or_init(Handle::current);
        if self.has_stopped_accepting() {
            return Err(RequestError::ServerStopping);
        }
        self.reserve_address(client.address)?;
        if !self.sessions.try_reserve(self.options.max_sessions) {
            self.release_address(client.address);
            return Err(RequestError::TooManySessions);
        }
        let client = Arc::new(client);
        let tick = self.current_tick.load(Ordering::Relaxed);
        let session = self.sessions.insert(tick, |location| {
            Arc::new(EngineIoSession::new(
                Arc::clone(self),
                client,
                transport,
                location,
            ))
        });
        self.start_connect_deadline(&session);
        self.handler.on_open(&session);
        Ok(session)
    }

    fn reserve_address(&self, address: Option<IpAddr>) -> Result<(), RequestError> {
        let Some(address) = address else {
            return Ok(());
        };
        let network = (self.options.client_network)(address);
        let mut counts = self.sessions_per_network.lock();
        let count = counts.entry(network).or_default();
        if *count >= self.options.max_sessions_per_address {
            return Err(RequestError::TooManySessionsFromAddress);
        }
        *count += 1;
        Ok(())
    }

    fn release_address(&self, address: Option<IpAddr>) {
        let Some(address) = address else { return };
        let network = (self.options.client_network)(address);
        let mut counts = self.sessions_per_network.lock();
        if let Some(count) = counts.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&network);
            }
        }
    }

    pub(super) fn remove_session(&self, session: &Arc<EngineIoSession<H>>) {
        if self.sessions.remove(session) {
            self.sessions.release_reservation();
            self.release_address(session.client_info().address);
        }
    }

    /// Encodes the first packet of a session.
    pub(super) fn encode_open_packet(
        &self,
        session: &EngineIoSession<H>,
        upgrades: &str,
    ) -> Vec<u8> {
        let json = format!(
            r#"{{"sid":"{}","upgrades":[{upgrades}],"pingInterval":{},"pingTimeout":{},"maxPayload":{}}}"#,
            session.sid(),
            self.options.ping_interval.as_millis(),
            self.options.ping_timeout.as_millis(),
            self.options.max_payload,
        );
        let mut packet = Vec::with_capacity(json.len() + 1);
        EngineIoPacket::Open(&json).encode(&mut packet);
        packet
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = self.runtime.get() {
            runtime.spawn(task);
        }
    }

    pub(super) fn count_send_queue_overflow(&self) {
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
    pub async fn close_all_sessions(&self, timeout: Duration) {
        self.stop_accepting();
        self.for_each_session_unlocked(|session| session.close(DisconnectReason::ServerShutdown));
        let closed = tokio::time::timeout(timeout, self.sessions.wait_until_empty()).await;
        if closed.is_err() {
            self.for_each_session_unlocked(|session| {
                session.abort(DisconnectReason::ServerShutdown);
            });
            // A session that is left even now is lost with the server.
            let _ = tokio::time::timeout(ABORT_TIMEOUT, self.sessions.wait_until_empty()).await;
        }
    }

    /// Calls `action` with every session, outside of the bucket locks.
    fn for_each_session_unlocked(&self, action: impl Fn(&Arc<EngineIoSession<H>>)) {
        for bucket in 0..self.sessions.bucket_count() {
            let mut sessions = Vec::new();
            self.sessions
                .for_each_in_bucket(bucket, |session| sessions.push(Arc::clone(session)));
            sessions.iter().for_each(&action);
        }
    }

    /// Counters and gauges at this moment. Locks every session.
    pub fn stats(&self) -> SocketIoStats {
        let mut stats = SocketIoStats {
            open_sessions: self.sessions.open_count(),
            send_queue_overflows_total: self.send_queue_overflows.load(Ordering::Relaxed),
            ..SocketIoStats::default()
        };
        self.sessions.for_each(|session| {
            let transport = session.transport_state.lock();
            stats.send_queue_bytes += transport.send_queue_bytes();
            stats.polling_sessions += usize::from(transport.active == TransportKind::Polling);
        });
        stats
    }
}
