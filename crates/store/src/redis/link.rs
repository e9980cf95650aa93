//! The pool of connections to one primary: its circuit breaker, and one attempt of a request.
//!
//! Invariants:
//! 1. An attempt ends by its deadline.
//! 2. A connection that failed, or whose server has become a replica, is not used again.

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

/// Server that a pool connects to.
pub(crate) enum PrimaryPoolTarget {
    /// The server at this address.
    Address(ServerAddress),
    /// The primary that the sentinels name.
    Sentinel(Arc<SentinelResolver>),
}

/// Callbacks of the owner of a pool.
pub(crate) trait PrimaryPoolOwner: Send + Sync {
    /// Prepares a new connection before it is used: reconciles the epoch.
    fn prepare_connection<'a>(
        &'a self,
        server: &'a ServerAddress,
        identity: &'a ServerInfo,
        con: &'a mut MultiplexedConnection,
    ) -> BoxFuture<'a, RedisResult<()>>;

    /// Called after a connection has failed.
    fn on_connection_lost(&self, _server: &ServerAddress) {}

    /// Whether time and epoch are read from this server.
    fn is_epoch_server(&self, _server: &ServerAddress) -> bool {
        true
    }
}

/// Connections to one primary, with the tasks that keep them open.
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
    /// Set when the pool is closed or dropped. Its server then no longer counts as down.
    retired: AtomicBool,
}

impl PrimaryPool {
    /// Opens a pool and waits for its first connection.
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

    /// Opens a pool that connects in the background.
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

    /// Watch of the current primary, as the newest connection sees it.
    pub(crate) fn primary(&self) -> watch::Receiver<Option<Arc<ServerConnection>>> {
        self.core.primary.subscribe()
    }

    /// Address of the current server, or the pool's label while there is none.
    pub(crate) fn server(&self) -> String {
        let primary = self.core.primary.borrow();
        let server = primary.as_ref().map(|conn| conn.server.to_string());
        server.unwrap_or_else(|| self.core.label.clone())
    }

    /// Whether a request can be sent now.
    pub(crate) fn is_ready(&self) -> bool {
        !self.core.breaker.is_open() && self.core.pick_connection().is_some()
    }

    /// One attempt of a command.
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

    /// One attempt of a pipeline.
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

    /// Closes all connections for good.
    pub(crate) fn close(&self) {
        self.core.retired.store(true, Ordering::Release);
        self.tasks.abort_all();
        for line in &self.core.holders {
            line.connection_at.store(None);
        }
    }

    /// Loads a script that the server does not know.
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
        // A server that the store no longer uses must not count as down.
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
                // The server may be slow or dead. The supervisor sends a heartbeat to find out.
                self.holders[line].wake_supervisor.notify_one();
                Err(AttemptError::after_send(timeout_error(
                    "the store did not answer in time",
                )))
            }
        }
    }

    /// Reports that this server answers. Otherwise an open breaker would stay open while there are no requests, and a
    /// node that gets no requests because its store is down would stay down.
    pub(crate) fn report_alive(&self) {
        // A closed breaker is not reset: requests that fail while heartbeats succeed still open it.
        if self.breaker.is_open() {
            let Ok(ticket) = self.breaker.try_acquire(monotonic()) else {
                return;
            };
            self.apply_breaker_transition(ticket.record_success(), "");
        }
        self.shared.mark_server_up(&self.label);
    }

    /// Reports that this server does not answer.
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
