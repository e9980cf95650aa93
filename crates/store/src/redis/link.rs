//! The way to one primary: its multiplexed connections, its breaker, and one try of a request.
//!
//! Always true:
//! 1. A try ends by its deadline.
//! 2. A connection that failed, or whose server says that it is a replica now, is not used again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};
use tokio::sync::watch;

use super::breaker::{BreakerPermit, BreakerTransition, CircuitBreaker};
use super::connect::{ServerConnector, ServerInfo, timeout_error};
use super::lines::{ConnectionHolder, ServerConnection};
use super::retry::{AttemptError, has_error_code};
use super::sentinel::SentinelResolver;
use super::supervisor;
use crate::clock::monotonic;
use crate::script;
use crate::shared::StoreShared;
use crate::tasks::BackgroundTasks;
use crate::telemetry::StoreTelemetryEvent;
use crate::url::ServerAddress;

/// Where a link leads.
pub(crate) enum PrimaryPoolTarget {
    /// To this server.
    Address(ServerAddress),
    /// To whichever server is the primary now.
    Sentinel(Arc<SentinelResolver>),
}

/// What the owner of a link does with its servers.
pub(crate) trait PrimaryPoolOwner: Send + Sync {
    /// A new connection, not yet in use: settles the epoch.
    fn prepare_connection<'a>(
        &'a self,
        server: &'a ServerAddress,
        identity: &'a ServerInfo,
        con: &'a mut MultiplexedConnection,
    ) -> BoxFuture<'a, RedisResult<()>>;

    /// A connection stopped working.
    fn on_connection_lost(&self, _server: &ServerAddress) {}

    /// Whether time and epoch are read from this server.
    fn is_epoch_server(&self, _server: &ServerAddress) -> bool {
        true
    }
}

/// A link, with the tasks that keep it up.
pub(crate) struct PrimaryPool {
    core: Arc<PrimaryPoolInner>,
    tasks: BackgroundTasks,
}

pub(crate) struct PrimaryPoolInner {
    pub(crate) label: String,
    pub(crate) target: PrimaryPoolTarget,
    pub(crate) dialer: ServerConnector,
    pub(crate) shared: Arc<StoreShared>,
    pub(crate) owner: Arc<dyn PrimaryPoolOwner>,
    pub(crate) holders: Box<[ConnectionHolder]>,
    pub(super) next_holder: AtomicUsize,
    pub(super) breaker: CircuitBreaker,
    pub(super) primary: watch::Sender<Option<Arc<ServerConnection>>>,
    /// Set when nobody uses the link any more: its troubles do not count then.
    retired: AtomicBool,
}

impl PrimaryPool {
    /// A link whose first connection stands.
    pub(crate) async fn open(
        target: PrimaryPoolTarget,
        dialer: ServerConnector,
        shared: Arc<StoreShared>,
        host: Arc<dyn PrimaryPoolOwner>,
    ) -> RedisResult<Self> {
        let core = PrimaryPoolInner::new(target, dialer, shared, host);
        let first = core.connect().await?;
        Ok(Self::start(core, Some(first)))
    }

    /// A link that connects in the background.
    pub(crate) fn open_in_background(
        target: PrimaryPoolTarget,
        dialer: ServerConnector,
        shared: Arc<StoreShared>,
        host: Arc<dyn PrimaryPoolOwner>,
    ) -> Self {
        Self::start(PrimaryPoolInner::new(target, dialer, shared, host), None)
    }

    fn start(core: Arc<PrimaryPoolInner>, mut first: Option<ServerConnection>) -> Self {
        let tasks = BackgroundTasks::default();
        if let Some(conn) = first.take() {
            core.install_connection(0, conn);
        }
        for line in 0..core.holders.len() {
            tasks.spawn(supervisor::maintain_connection(Arc::clone(&core), line));
        }
        if let PrimaryPoolTarget::Sentinel(sentinel) = &core.target {
            tasks.spawn(supervisor::follow_sentinel(
                Arc::clone(&core),
                Arc::clone(sentinel),
            ));
        }
        Self { core, tasks }
    }

    /// The current primary, as seen by the newest connection.
    pub(crate) fn primary(&self) -> watch::Receiver<Option<Arc<ServerConnection>>> {
        self.core.primary.subscribe()
    }

    /// The address of the server that it leads to now, or its name while there is none.
    pub(crate) fn server(&self) -> String {
        let primary = self.core.primary.borrow();
        let server = primary.as_ref().map(|conn| conn.server.to_string());
        server.unwrap_or_else(|| self.core.label.clone())
    }

    /// Whether a request has a chance right now.
    pub(crate) fn is_ready(&self) -> bool {
        !self.core.breaker.is_open() && self.core.pick_connection().is_some()
    }

    /// One try of a command.
    pub(crate) async fn command(
        &self,
        cmd: &Cmd,
        deadline: Instant,
    ) -> Result<Value, AttemptError> {
        let core = &*self.core;
        let (ticket, conn, line) = core.acquire_connection()?;
        let mut con = conn.connection.clone();
        let reply = tokio::time::timeout_at(deadline.into(), con.send_packed_command(cmd)).await;
        let reply = core.record_outcome(ticket, &conn, line, reply)?;
        if matches!(&reply, Value::ServerError(_)) {
            core.discard_if_replica(&conn, line, &Ok(std::slice::from_ref(&reply)));
        }
        Ok(reply)
    }

    /// One try of a pipeline.
    pub(crate) async fn pipeline(
        &self,
        pipe: &Pipeline,
        offset: usize,
        count: usize,
        deadline: Instant,
    ) -> Result<Vec<Value>, AttemptError> {
        let core = &*self.core;
        let (ticket, conn, line) = core.acquire_connection()?;
        let mut con = conn.connection.clone();
        let replies = tokio::time::timeout_at(
            deadline.into(),
            con.send_packed_commands(pipe, offset, count),
        )
        .await;
        let replies = core.record_outcome(ticket, &conn, line, replies);
        match &replies {
            Ok(values) => core.discard_if_replica(&conn, line, &Ok(values)),
            Err(failed) => core.discard_if_replica(&conn, line, &Err(failed.error.clone())),
        }
        replies
    }

    /// Ends the connections for good.
    pub(crate) fn close(&self) {
        self.core.retired.store(true, Ordering::Release);
        self.tasks.abort_all();
        for line in &self.core.holders {
            line.connection_at.store(None);
        }
    }

    /// Gives the server a script it does not know (any more).
    pub(crate) async fn load_script(
        &self,
        source: &str,
        deadline: Instant,
    ) -> Result<(), AttemptError> {
        let reply = self
            .command(&script::script_load_cmd(source), deadline)
            .await?;
        StoreTelemetryEvent::ScriptLoaded {
            server: &self.core.label,
        }
        .emit();
        reply
            .extract_error()
            .map(drop)
            .map_err(AttemptError::after_send)
    }
}

impl Drop for PrimaryPool {
    fn drop(&mut self) {
        // A server that is not ours any more is no trouble of ours.
        self.core.retired.store(true, Ordering::Release);
        self.core
            .apply_breaker_transition(self.core.breaker.close(), "");
        self.core.shared.mark_server_up(&self.core.label);
    }
}

impl PrimaryPoolInner {
    fn new(
        target: PrimaryPoolTarget,
        dialer: ServerConnector,
        shared: Arc<StoreShared>,
        host: Arc<dyn PrimaryPoolOwner>,
    ) -> Arc<Self> {
        let name = match &target {
            PrimaryPoolTarget::Address(server) => server.to_string(),
            PrimaryPoolTarget::Sentinel(sentinel) => sentinel.primary_name().to_owned(),
        };
        let lines = (0..shared.connections)
            .map(|_| ConnectionHolder::default())
            .collect();
        Arc::new(Self {
            label: name,
            target,
            dialer,
            shared,
            owner: host,
            holders: lines,
            next_holder: AtomicUsize::new(0),
            breaker: CircuitBreaker::default(),
            primary: watch::Sender::new(None),
            retired: AtomicBool::new(false),
        })
    }

    fn acquire_connection(
        &self,
    ) -> Result<(BreakerPermit<'_>, Arc<ServerConnection>, usize), AttemptError> {
        let now = monotonic();
        let ticket = self
            .breaker
            .try_acquire(now)
            .map_err(|since| AttemptError::no_retry(self.unavailable_error(since)))?;
        match self.pick_connection() {
            Some((conn, line)) => Ok((ticket, conn, line)),
            None => {
                self.apply_breaker_transition(ticket.record_failure(now), "no connection");
                Err(AttemptError::before_send(
                    self.unavailable_error(Duration::ZERO),
                ))
            }
        }
    }

    fn unavailable_error(&self, since: Duration) -> RedisError {
        let since = match since.as_millis() {
            0 => "is not connected".to_owned(),
            ms => format!("has not answered for {ms} ms"),
        };
        (
            ErrorKind::Io,
            "store unavailable",
            format!("{} {since}", self.label),
        )
            .into()
    }

    fn record_outcome<T>(
        &self,
        ticket: BreakerPermit<'_>,
        conn: &Arc<ServerConnection>,
        line: usize,
        reply: Result<RedisResult<T>, tokio::time::error::Elapsed>,
    ) -> Result<T, AttemptError> {
        match reply {
            Ok(Ok(value)) => {
                self.apply_breaker_transition(ticket.record_success(), "");
                Ok(value)
            }
            Ok(Err(error)) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse) => {
                self.discard_connection(line, conn, &error.to_string());
                self.apply_breaker_transition(
                    ticket.record_failure(monotonic()),
                    &error.to_string(),
                );
                Err(AttemptError::after_send(error))
            }
            Ok(Err(error)) => {
                self.apply_breaker_transition(ticket.record_success(), "");
                Err(AttemptError::after_send(error))
            }
            Err(_) => {
                self.apply_breaker_transition(
                    ticket.record_failure(monotonic()),
                    "no answer in time",
                );
                // Slow or dead? The supervisor asks.
                self.holders[line].wake_supervisor.notify_one();
                Err(AttemptError::after_send(timeout_error(
                    "the store did not answer in time",
                )))
            }
        }
    }

    /// Tells that this server answers. Without it a breaker that opened would stay open while nobody calls, and a node
    /// that is not called because its store is down would stay down.
    pub(crate) fn report_alive(&self) {
        // A closed one is not told: requests that fail while the heart beats still open it.
        if self.breaker.is_open() {
            let Ok(ticket) = self.breaker.try_acquire(monotonic()) else {
                return;
            };
            self.apply_breaker_transition(ticket.record_success(), "");
        }
        self.shared.mark_server_up(&self.label);
    }

    /// Tells that this server does not answer.
    pub(crate) fn report_down(&self, reason: &str) {
        self.shared
            .mark_server_down(&self.label, reason, &self.retired);
    }

    pub(super) fn apply_breaker_transition(&self, change: BreakerTransition, reason: &str) {
        match change {
            BreakerTransition::None => {}
            BreakerTransition::Opened => {
                StoreTelemetryEvent::BreakerOpened {
                    server: &self.label,
                    reason,
                }
                .emit();
                self.report_down(reason);
            }
            BreakerTransition::Closed => {
                StoreTelemetryEvent::BreakerClosed {
                    server: &self.label,
                }
                .emit();
                self.shared.mark_server_up(&self.label);
            }
        }
    }

    fn discard_if_replica(
        &self,
        conn: &Arc<ServerConnection>,
        line: usize,
        replies: &RedisResult<&[Value]>,
    ) {
        if has_error_code(replies, "READONLY") {
            self.discard_connection(line, conn, "the server is a replica now");
        }
    }
}
