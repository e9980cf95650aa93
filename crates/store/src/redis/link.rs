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

use super::breaker::{Breaker, Change, Ticket};
use super::connect::{Dialer, Identity, timed_out};
use super::lines::{Conn, Line};
use super::retry::{Failed, has_code};
use super::sentinel::Sentinel;
use super::supervisor;
use crate::clock::monotonic;
use crate::script;
use crate::shared::Shared;
use crate::tasks::Tasks;
use crate::telemetry::Event;
use crate::url::Address;

/// Where a link leads.
pub(crate) enum Target {
    /// To this server.
    Server(Address),
    /// To whichever server is the primary now.
    Sentinel(Arc<Sentinel>),
}

/// What the owner of a link does with its servers.
pub(crate) trait Host: Send + Sync {
    /// A new connection, not yet in use: settles the epoch.
    fn admit<'a>(
        &'a self,
        server: &'a Address,
        identity: &'a Identity,
        con: &'a mut MultiplexedConnection,
    ) -> BoxFuture<'a, RedisResult<()>>;

    /// A connection stopped working.
    fn lost(&self, _server: &Address) {}

    /// Whether time and epoch are read from this server.
    fn leads(&self, _server: &Address) -> bool {
        true
    }
}

/// A link, with the tasks that keep it up.
pub(crate) struct Link {
    core: Arc<Core>,
    tasks: Tasks,
}

pub(crate) struct Core {
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) dialer: Dialer,
    pub(crate) shared: Arc<Shared>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) lines: Box<[Line]>,
    pub(super) next: AtomicUsize,
    pub(super) breaker: Breaker,
    pub(super) primary: watch::Sender<Option<Arc<Conn>>>,
    /// Set when nobody uses the link any more: its troubles do not count then.
    retired: AtomicBool,
}

impl Link {
    /// A link whose first connection stands.
    pub(crate) async fn open(
        target: Target,
        dialer: Dialer,
        shared: Arc<Shared>,
        host: Arc<dyn Host>,
    ) -> RedisResult<Self> {
        let core = Core::new(target, dialer, shared, host);
        let first = core.connect().await?;
        Ok(Self::start(core, Some(first)))
    }

    /// A link that connects in the background.
    pub(crate) fn open_later(
        target: Target,
        dialer: Dialer,
        shared: Arc<Shared>,
        host: Arc<dyn Host>,
    ) -> Self {
        Self::start(Core::new(target, dialer, shared, host), None)
    }

    fn start(core: Arc<Core>, mut first: Option<Conn>) -> Self {
        let tasks = Tasks::default();
        if let Some(conn) = first.take() {
            core.publish(0, conn);
        }
        for line in 0..core.lines.len() {
            tasks.spawn(supervisor::keep(Arc::clone(&core), line));
        }
        if let Target::Sentinel(sentinel) = &core.target {
            tasks.spawn(supervisor::follow(Arc::clone(&core), Arc::clone(sentinel)));
        }
        Self { core, tasks }
    }

    /// The current primary, as seen by the newest connection.
    pub(crate) fn primary(&self) -> watch::Receiver<Option<Arc<Conn>>> {
        self.core.primary.subscribe()
    }

    /// The address of the server that it leads to now, or its name while there is none.
    pub(crate) fn server(&self) -> String {
        let primary = self.core.primary.borrow();
        let server = primary.as_ref().map(|conn| conn.server.to_string());
        server.unwrap_or_else(|| self.core.name.clone())
    }

    /// Whether a request has a chance right now.
    pub(crate) fn is_ready(&self) -> bool {
        !self.core.breaker.is_open() && self.core.pick().is_some()
    }

    /// One try of a command.
    pub(crate) async fn command(&self, cmd: &Cmd, deadline: Instant) -> Result<Value, Failed> {
        let core = &*self.core;
        let (ticket, conn, line) = core.admit()?;
        let mut con = conn.con.clone();
        let reply = tokio::time::timeout_at(deadline.into(), con.send_packed_command(cmd)).await;
        let reply = core.judge(ticket, &conn, line, reply)?;
        if matches!(&reply, Value::ServerError(_)) {
            core.check_role(&conn, line, &Ok(std::slice::from_ref(&reply)));
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
    ) -> Result<Vec<Value>, Failed> {
        let core = &*self.core;
        let (ticket, conn, line) = core.admit()?;
        let mut con = conn.con.clone();
        let replies = tokio::time::timeout_at(
            deadline.into(),
            con.send_packed_commands(pipe, offset, count),
        )
        .await;
        let replies = core.judge(ticket, &conn, line, replies);
        match &replies {
            Ok(values) => core.check_role(&conn, line, &Ok(values)),
            Err(failed) => core.check_role(&conn, line, &Err(failed.error.clone())),
        }
        replies
    }

    /// Ends the connections for good.
    pub(crate) fn close(&self) {
        self.core.retired.store(true, Ordering::Release);
        self.tasks.end();
        for line in &self.core.lines {
            line.current.store(None);
        }
    }

    /// Gives the server a script it does not know (any more).
    pub(crate) async fn load(&self, source: &str, deadline: Instant) -> Result<(), Failed> {
        let reply = self.command(&script::load(source), deadline).await?;
        Event::ScriptLoaded {
            server: &self.core.name,
        }
        .emit();
        reply.extract_error().map(drop).map_err(Failed::sent)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // A server that is not ours any more is no trouble of ours.
        self.core.retired.store(true, Ordering::Release);
        self.core.note(self.core.breaker.reset(), "");
        self.core.shared.well(&self.core.name);
    }
}

impl Core {
    fn new(target: Target, dialer: Dialer, shared: Arc<Shared>, host: Arc<dyn Host>) -> Arc<Self> {
        let name = match &target {
            Target::Server(server) => server.to_string(),
            Target::Sentinel(sentinel) => sentinel.name().to_owned(),
        };
        let lines = (0..shared.connections).map(|_| Line::default()).collect();
        Arc::new(Self {
            name,
            target,
            dialer,
            shared,
            host,
            lines,
            next: AtomicUsize::new(0),
            breaker: Breaker::default(),
            primary: watch::Sender::new(None),
            retired: AtomicBool::new(false),
        })
    }

    fn admit(&self) -> Result<(Ticket<'_>, Arc<Conn>, usize), Failed> {
        let now = monotonic();
        let ticket = self
            .breaker
            .admit(now)
            .map_err(|since| Failed::refused(self.unavailable(since)))?;
        match self.pick() {
            Some((conn, line)) => Ok((ticket, conn, line)),
            None => {
                self.note(ticket.failure(now), "no connection");
                Err(Failed::unsent(self.unavailable(Duration::ZERO)))
            }
        }
    }

    fn unavailable(&self, since: Duration) -> RedisError {
        let since = match since.as_millis() {
            0 => "is not connected".to_owned(),
            ms => format!("has not answered for {ms} ms"),
        };
        (
            ErrorKind::Io,
            "store unavailable",
            format!("{} {since}", self.name),
        )
            .into()
    }

    fn judge<T>(
        &self,
        ticket: Ticket<'_>,
        conn: &Arc<Conn>,
        line: usize,
        reply: Result<RedisResult<T>, tokio::time::error::Elapsed>,
    ) -> Result<T, Failed> {
        match reply {
            Ok(Ok(value)) => {
                self.note(ticket.success(), "");
                Ok(value)
            }
            Ok(Err(error)) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse) => {
                self.lose(line, conn, &error.to_string());
                self.note(ticket.failure(monotonic()), &error.to_string());
                Err(Failed::sent(error))
            }
            Ok(Err(error)) => {
                self.note(ticket.success(), "");
                Err(Failed::sent(error))
            }
            Err(_) => {
                self.note(ticket.failure(monotonic()), "no answer in time");
                // Slow or dead? The supervisor asks.
                self.lines[line].wake.notify_one();
                Err(Failed::sent(timed_out("the store did not answer in time")))
            }
        }
    }

    /// Tells that this server answers. Without it a breaker that opened would stay open while nobody calls, and a node
    /// that is not called because its store is down would stay down.
    pub(crate) fn answers(&self) {
        // A closed one is not told: requests that fail while the heart beats still open it.
        if self.breaker.is_open() {
            let Ok(ticket) = self.breaker.admit(monotonic()) else {
                return;
            };
            self.note(ticket.success(), "");
        }
        self.shared.well(&self.name);
    }

    /// Tells that this server does not answer.
    pub(crate) fn trouble(&self, reason: &str) {
        self.shared.trouble(&self.name, reason, &self.retired);
    }

    pub(super) fn note(&self, change: Change, reason: &str) {
        match change {
            Change::None => {}
            Change::Opened => {
                Event::BreakerOpened {
                    server: &self.name,
                    reason,
                }
                .emit();
                self.trouble(reason);
            }
            Change::Closed => {
                Event::BreakerClosed { server: &self.name }.emit();
                self.shared.well(&self.name);
            }
        }
    }

    fn check_role(&self, conn: &Arc<Conn>, line: usize, replies: &RedisResult<&[Value]>) {
        if has_code(replies, "READONLY") {
            self.lose(line, conn, "the server is a replica now");
        }
    }
}
