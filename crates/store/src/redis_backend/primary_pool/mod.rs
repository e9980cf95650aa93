//! The pool of connections to one primary: its circuit breaker, and one attempt of a request.
//!
//! Invariants:
//! 1. An attempt ends by its deadline.
//! 2. A pool that is still connecting for the first time has not failed: a request waits for the connection. A Cluster
//!    that grows redirects to servers that are not connected yet.
//! 3. A connection that failed, or whose server has become a replica, is not used again.

pub(crate) mod connections;
mod supervisor;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};
use tokio::sync::watch;

use self::connections::{ConnectionHolder, ServerConnection};
use super::circuit_breaker::{BreakerPermit, BreakerTransition, CircuitBreaker};
use super::connector::{ServerConnector, timeout_error};
use super::retry::{AttemptError, has_error_code};
use super::sentinel::SentinelResolver;
use super::server_info::ServerInfo;
use crate::health::StoreShared;
use crate::script::{LuaScript, script_load_cmd};
use crate::task_group::TaskGroup;
use crate::telemetry;
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
        info: &'a ServerInfo,
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
    inner: Arc<PrimaryPoolInner>,
    tasks: TaskGroup,
}

pub(crate) struct PrimaryPoolInner {
    pub(crate) label: String,
    pub(crate) target: PrimaryPoolTarget,
    pub(crate) connector: ServerConnector,
    pub(crate) shared: Arc<StoreShared>,
    pub(crate) owner: Arc<dyn PrimaryPoolOwner>,
    pub(crate) holders: Box<[ConnectionHolder]>,
    pub(super) next_holder: AtomicUsize,
    pub(super) breaker: CircuitBreaker,
    pub(super) primary: watch::Sender<Option<Arc<ServerConnection>>>,
    /// Whether the first attempt to connect has ended. Until then, a request waits for it instead of failing.
    pub(super) first_attempt_ended: watch::Sender<bool>,
    /// Set when the pool is closed or dropped. Its server then no longer counts as down.
    retired: AtomicBool,
}

impl PrimaryPool {
    /// Opens a pool and waits for its first connection.
    pub(crate) async fn open(
        target: PrimaryPoolTarget,
        connector: ServerConnector,
        shared: Arc<StoreShared>,
        owner: Arc<dyn PrimaryPoolOwner>,
    ) -> RedisResult<Self> {
        let inner = PrimaryPoolInner::new(target, connector, shared, owner);
        let first = inner.connect().await?;
        Ok(Self::start(inner, Some(first)))
    }

    /// Opens a pool that connects in the background.
    pub(crate) fn open_in_background(
        target: PrimaryPoolTarget,
        connector: ServerConnector,
        shared: Arc<StoreShared>,
        owner: Arc<dyn PrimaryPoolOwner>,
    ) -> Self {
        Self::start(
            PrimaryPoolInner::new(target, connector, shared, owner),
            None,
        )
    }

    fn start(inner: Arc<PrimaryPoolInner>, first: Option<ServerConnection>) -> Self {
        let tasks = TaskGroup::default();
        if let Some(conn) = first {
            inner.install_connection(0, conn);
        }
        for holder_index in 0..inner.holders.len() {
            tasks.spawn(supervisor::maintain_connection(
                Arc::clone(&inner),
                holder_index,
            ));
        }
        if let PrimaryPoolTarget::Sentinel(sentinel) = &inner.target {
            tasks.spawn(supervisor::follow_sentinel(
                Arc::clone(&inner),
                Arc::clone(sentinel),
            ));
        }
        Self { inner, tasks }
    }

    /// Watch of the current primary, as the newest connection sees it.
    pub(crate) fn primary(&self) -> watch::Receiver<Option<Arc<ServerConnection>>> {
        self.inner.primary.subscribe()
    }

    /// Address of the current server, or the pool's label while there is none.
    pub(crate) fn server(&self) -> String {
        let primary = self.inner.primary.borrow();
        let server = primary.as_ref().map(|conn| conn.server.to_string());
        server.unwrap_or_else(|| self.inner.label.clone())
    }

    /// Whether a request can be sent now.
    pub(crate) fn is_ready(&self) -> bool {
        !self.inner.breaker.is_open() && self.inner.pick_connection().is_some()
    }

    /// One attempt of a command.
    pub(crate) async fn command(
        &self,
        cmd: &Cmd,
        deadline: Instant,
    ) -> Result<Value, AttemptError> {
        let inner = &*self.inner;
        let (permit, conn, holder_index) = inner.acquire_connection(deadline).await?;
        let mut con = conn.connection.clone();
        let reply = tokio::time::timeout_at(deadline.into(), con.send_packed_command(cmd)).await;
        let reply = inner.record_outcome(permit, &conn, holder_index, reply)?;
        if matches!(&reply, Value::ServerError(_)) {
            inner.inspect_errors(&conn, holder_index, &Ok(std::slice::from_ref(&reply)));
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
        let inner = &*self.inner;
        let (permit, conn, holder_index) = inner.acquire_connection(deadline).await?;
        let mut con = conn.connection.clone();
        let replies = tokio::time::timeout_at(
            deadline.into(),
            con.send_packed_commands(pipe, offset, count),
        )
        .await;
        let replies = inner.record_outcome(permit, &conn, holder_index, replies);
        match &replies {
            Ok(values) => inner.inspect_errors(&conn, holder_index, &Ok(values)),
            Err(failed) => {
                inner.inspect_errors(&conn, holder_index, &Err(failed.error.clone()));
            }
        }
        replies
    }

    /// Closes all connections for good.
    pub(crate) fn close(&self) {
        self.inner.retired.store(true, Ordering::Release);
        self.tasks.abort_all();
        for holder in &self.inner.holders {
            holder.connection.store(None);
        }
    }

    /// Loads a script that the server does not know.
    pub(crate) async fn load_script(
        &self,
        script: &LuaScript,
        deadline: Instant,
    ) -> Result<(), AttemptError> {
        let cmd = script_load_cmd(script.source());
        let reply = self.command(&cmd, deadline).await?;
        telemetry::script_loaded(&self.inner.label, script.name());
        let reply = reply.extract_error();
        reply.map(drop).map_err(AttemptError::after_send)
    }
}

impl Drop for PrimaryPool {
    fn drop(&mut self) {
        // A server that the store no longer uses must not count as down.
        self.inner.retired.store(true, Ordering::Release);
        self.inner
            .apply_breaker_transition(self.inner.breaker.close(), "");
        self.inner.shared.mark_server_up(&self.inner.label);
    }
}

impl PrimaryPoolInner {
    fn new(
        target: PrimaryPoolTarget,
        connector: ServerConnector,
        shared: Arc<StoreShared>,
        owner: Arc<dyn PrimaryPoolOwner>,
    ) -> Arc<Self> {
        let label = match &target {
            PrimaryPoolTarget::Address(server) => server.to_string(),
            PrimaryPoolTarget::Sentinel(sentinel) => sentinel.primary_name().to_owned(),
        };
        let holders = (0..shared.connections_per_server)
            .map(|_| ConnectionHolder::default())
            .collect();
        Arc::new(Self {
            label,
            target,
            connector,
            shared,
            owner,
            holders,
            next_holder: AtomicUsize::new(0),
            breaker: CircuitBreaker::default(),
            primary: watch::Sender::new(None),
            first_attempt_ended: watch::Sender::new(false),
            retired: AtomicBool::new(false),
        })
    }

    async fn acquire_connection(
        &self,
        deadline: Instant,
    ) -> Result<(BreakerPermit<'_>, Arc<ServerConnection>, usize), AttemptError> {
        if !*self.first_attempt_ended.borrow() {
            self.wait_for_first_attempt(deadline).await?;
        }
        let now = Instant::now();
        let permit = self
            .breaker
            .try_acquire(now)
            .map_err(|since| AttemptError::no_retry(self.unavailable_error(since)))?;
        match self.pick_connection() {
            Some((conn, holder_index)) => Ok((permit, conn, holder_index)),
            None => {
                self.apply_breaker_transition(permit.record_failure(now), "no connection");
                Err(AttemptError::before_send(
                    self.unavailable_error(Duration::ZERO),
                ))
            }
        }
    }

    async fn wait_for_first_attempt(&self, deadline: Instant) -> Result<(), AttemptError> {
        let mut ended = self.first_attempt_ended.subscribe();
        let waited = tokio::time::timeout_at(deadline.into(), ended.wait_for(|ended| *ended)).await;
        match waited {
            Ok(_) => Ok(()),
            Err(_) => Err(AttemptError::no_retry(
                self.unavailable_error(Duration::ZERO),
            )),
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
        permit: BreakerPermit<'_>,
        conn: &Arc<ServerConnection>,
        holder_index: usize,
        reply: Result<RedisResult<T>, tokio::time::error::Elapsed>,
    ) -> Result<T, AttemptError> {
        let (error, reason) = match reply {
            Ok(Ok(value)) => {
                self.apply_breaker_transition(permit.record_success(), "");
                return Ok(value);
            }
            Ok(Err(error)) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse) => {
                let reason = error.to_string();
                self.discard_connection(holder_index, conn, &reason);
                (error, reason)
            }
            Ok(Err(error)) => {
                self.apply_breaker_transition(permit.record_success(), "");
                return Err(AttemptError::after_send(error));
            }
            Err(_) => {
                // The server may be slow or dead. The supervisor sends a heartbeat to find out.
                self.holders[holder_index].wake_supervisor.notify_one();
                let error = timeout_error("the store did not answer in time");
                (error, "no answer in time".to_owned())
            }
        };
        self.apply_breaker_transition(permit.record_failure(Instant::now()), &reason);
        Err(AttemptError::after_send(error))
    }

    /// Reports that this server answers. Otherwise an open breaker would stay open while there are no requests, and a
    /// node that gets no requests because its store is down would stay down.
    pub(crate) fn report_alive(&self) {
        // A closed breaker is not reset: requests that fail while heartbeats succeed still open it.
        if self.breaker.is_open() {
            let Ok(permit) = self.breaker.try_acquire(Instant::now()) else {
                return;
            };
            self.apply_breaker_transition(permit.record_success(), "");
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
                telemetry::breaker_opened(&self.label, reason);
                self.report_down(reason);
            }
            BreakerTransition::Closed => {
                telemetry::breaker_closed(&self.label);
                self.shared.mark_server_up(&self.label);
            }
        }
    }

    /// Discards a connection to a replica, and reports a server that is full.
    fn inspect_errors(
        &self,
        conn: &Arc<ServerConnection>,
        holder_index: usize,
        replies: &RedisResult<&[Value]>,
    ) {
        if has_error_code(replies, "READONLY") {
            self.discard_connection(holder_index, conn, "the server is a replica now");
        }
        for code in ["OOM", "MISCONF"] {
            if has_error_code(replies, code) {
                self.shared.full_servers.report(&self.label, code);
            }
        }
    }
}
