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

use crate::packet::engine::Packet;
use crate::{Client, Figures, Options, Reason};
use answer::Refusal;
use out::Transport;
pub(crate) use parcel::Parcel;
pub use session::Session;
use table::Table;

/// The layer that takes the messages of sessions. Its calls must not block.
pub trait Above: Send + Sync + Sized + 'static {
    /// What it keeps of a session.
    type State: Default + Send + Sync + 'static;

    /// A session has begun.
    fn opened(self: &Arc<Self>, session: &Arc<Session<Self>>) {
        let _ = session;
    }

    /// A text message. False if the next is to wait until [`Above::poll_room`] is ready.
    fn text(self: &Arc<Self>, session: &Arc<Session<Self>>, text: &str) -> bool;

    /// A binary message; the same.
    fn binary(self: &Arc<Self>, session: &Arc<Session<Self>>, bytes: Bytes) -> bool;

    /// Ready when a message may come.
    fn poll_room(self: &Arc<Self>, session: &Arc<Session<Self>>, cx: &mut Context<'_>) -> Poll<()> {
        let _ = (session, cx);
        Poll::Ready(())
    }

    /// Whether messages wait for room: then the client cannot be heard, and is not asked for signs of life.
    fn is_full(&self, session: &Session<Self>) -> bool {
        let _ = session;
        false
    }

    /// The client has answered a ping.
    fn alive(self: &Arc<Self>, session: &Arc<Session<Self>>) {
        let _ = session;
    }

    /// The connect timeout has passed since the session was opened or [`Engine::watch`] was called.
    fn settled(self: &Arc<Self>, session: &Arc<Session<Self>>) {
        let _ = session;
    }

    /// A tick of the timers.
    fn tick(self: &Arc<Self>) {}

    /// The session has ended; exactly once.
    fn closed(self: &Arc<Self>, session: &Arc<Session<Self>>, reason: Reason) {
        let _ = (session, reason);
    }
}

/// An Engine.IO server.
#[derive(Debug)]
pub struct Engine<U: Above> {
    above: Arc<U>,
    options: Options,
    table: Table<U>,
    addresses: Mutex<HashMap<IpAddr, usize>>,
    young: Mutex<VecDeque<(Instant, Weak<Session<U>>)>>,
    runtime: OnceLock<Handle>,
    ping: Arc<Parcel>,
    tick: AtomicU32,
    stopped: AtomicBool,
    cut: AtomicU64,
}

impl<U: Above> Engine<U> {
    /// An engine without sessions.
    pub fn new(above: Arc<U>, options: Options) -> Arc<Self> {
        let phases = options.ping_interval.as_secs().clamp(25, 10_000);
        Arc::new(Self {
            above,
            table: Table::new(u16::try_from(phases).expect("clamped to 10,000")),
            options,
            addresses: Mutex::default(),
            young: Mutex::default(),
            runtime: OnceLock::new(),
            ping: Parcel::text("2"),
            // No tick is 0, which says that nothing was pinged.
            tick: AtomicU32::new(1),
            stopped: AtomicBool::new(false),
            cut: AtomicU64::new(0),
        })
    }

    /// The layer above.
    pub fn above(&self) -> &Arc<U> {
        &self.above
    }

    /// The settings.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether a request with this path is for it.
    pub fn takes(&self, path: &str) -> bool {
        path.strip_prefix(self.options.path.as_str())
            .is_some_and(|rest| matches!(rest, "" | "/"))
    }

    /// A new session, if there is room for one.
    fn open(
        self: &Arc<Self>,
        client: Client,
        transport: Transport,
    ) -> Result<Arc<Session<U>>, Refusal> {
        self.runtime.get_or_init(Handle::current);
        if self.is_stopped() {
            return Err(Refusal::Stopped);
        }
        self.count_address(client.address)?;
        if !self.table.reserve(self.options.most) {
            self.forget_address(client.address);
            return Err(Refusal::Full);
        }
        let client = Arc::new(client);
        let session = self
            .table
            .insert(self.tick.load(Ordering::Relaxed), |place| {
                Arc::new(Session::new(Arc::clone(self), client, transport, place))
            });
        self.watch(&session);
        self.above.opened(&session);
        Ok(session)
    }

    fn count_address(&self, address: Option<IpAddr>) -> Result<(), Refusal> {
        let Some(address) = address else {
            return Ok(());
        };
        let mut addresses = self.addresses.lock();
        let count = addresses.entry(address).or_default();
        if *count >= self.options.most_per_address {
            return Err(Refusal::TooManyOfAddress);
        }
        *count += 1;
        Ok(())
    }

    fn forget_address(&self, address: Option<IpAddr>) {
        let Some(address) = address else { return };
        let mut addresses = self.addresses.lock();
        if let Some(count) = addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&address);
            }
        }
    }

    fn remove(&self, session: &Arc<Session<U>>) {
        if self.table.remove(session) {
            self.table.release();
            self.forget_address(session.client().address);
        }
    }

    /// The first packet of a session.
    fn greeting(&self, session: &Session<U>, upgrades: &str) -> Vec<u8> {
        let json = format!(
            r#"{{"sid":"{}","upgrades":[{upgrades}],"pingInterval":{},"pingTimeout":{},"maxPayload":{}}}"#,
            session.id(),
            self.options.ping_interval.as_millis(),
            self.options.ping_timeout.as_millis(),
            self.options.max_payload,
        );
        let mut packet = Vec::with_capacity(json.len() + 1);
        Packet::Open(&json).write(&mut packet);
        packet
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = self.runtime.get() {
            runtime.spawn(task);
        }
    }

    fn count_cut(&self) {
        self.cut.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// From now on new sessions are refused with 503; open ones go on.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Ends all sessions. Returns when all are gone, at the latest shortly after `patience`: who is left then is cut.
    pub async fn close(&self, patience: Duration) {
        self.stop();
        for_all(&self.table, |session| session.close(Reason::Shutdown));
        if !self.emptied(Instant::now() + patience).await {
            for_all(&self.table, |session| session.cut(Reason::Shutdown));
            self.emptied(Instant::now() + CUTTING).await;
        }
    }

    async fn emptied(&self, deadline: Instant) -> bool {
        while self.table.open() > 0 {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(Duration::from_millis(5)).await;
        }
        true
    }

    /// What it counts now.
    pub fn figures(&self) -> Figures {
        let mut figures = Figures {
            connections: self.table.open(),
            cut: self.cut.load(Ordering::Relaxed),
            ..Figures::default()
        };
        self.table.for_each(|session| {
            let out = session.out().lock();
            figures.queued_bytes += out.bytes();
            figures.polling += usize::from(out.transport == Transport::Polling);
        });
        figures
    }
}

/// How long those take to go that are cut.
const CUTTING: Duration = Duration::from_millis(500);

/// Calls `each` outside of the table's locks.
fn for_all<U: Above>(table: &Table<U>, each: impl Fn(&Arc<Session<U>>)) {
    for phase in 0..table.phases() {
        let mut sessions = Vec::new();
        table.of_phase(phase, |session| sessions.push(Arc::clone(session)));
        sessions.iter().for_each(&each);
    }
}
