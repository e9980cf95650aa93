//! The handle to a store.
//!
//! Invariants:
//! 1. A `Store` is cheap to clone, and every clone has the same backend, time and epoch.

use std::sync::Arc;

use parlor_embedded::EmbeddedConnection;
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisFuture, RedisResult, Value};
use tokio::sync::watch;

use crate::bus::Bus;
use crate::clock::StoreClock;
use crate::embedded_backend;
use crate::health::{StoreShared, StoreState};
use crate::key_scan::KeyScan;
use crate::options::{StoreOpenError, StoreOptions};
use crate::redis_backend::RedisBackend;
use crate::task_group::TaskGroup;
use crate::telemetry;
use crate::url::StoreUrl;

/// Handle to a store: Redis, Valkey, or the embedded engine. Accepts the redis crate's commands, pipelines and scripts.
#[derive(Clone)]
pub struct Store {
    inner: Arc<StoreInner>,
    backend: StoreBackend,
    idempotent: bool,
}

struct StoreInner {
    shared: Arc<StoreShared>,
    bus: Bus,
    kind: StoreKind,
    database: i64,
    tasks: TaskGroup,
}

/// Executes the commands. Clones share it.
#[derive(Clone)]
pub(crate) enum StoreBackend {
    Embedded(EmbeddedConnection),
    Redis(Arc<RedisBackend>),
}

/// Kind of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// The embedded engine in this process.
    Embedded,
    /// One Redis or Valkey server.
    Standalone,
    /// A primary that sentinels monitor.
    Sentinel,
    /// A Redis or Valkey Cluster.
    Cluster,
}

impl Store {
    /// Opens a store. Fails if the server is unreachable. An open store reconnects without a limit.
    pub async fn open(options: StoreOptions) -> Result<Self, StoreOpenError> {
        let shared = Arc::new(StoreShared::new(&options));
        let (kind, database) = match &options.url {
            StoreUrl::Embedded => (StoreKind::Embedded, 0),
            StoreUrl::Redis { database, .. } => (StoreKind::Standalone, *database),
            StoreUrl::Sentinel { database, .. } => (StoreKind::Sentinel, *database),
            StoreUrl::Cluster { .. } => (StoreKind::Cluster, 0),
        };
        let tasks = TaskGroup::default();
        let backend = match kind {
            StoreKind::Embedded => {
                StoreBackend::Embedded(embedded_backend::open(&options, &shared, &tasks).await?)
            }
            _ => {
                let redis = RedisBackend::open(&options, Arc::clone(&shared)).await?;
                StoreBackend::Redis(Arc::new(redis))
            }
        };
        let bus = Bus::open(backend.clone(), shared.request_timeout);
        telemetry::opened(&options.url);
        let inner = Arc::new(StoreInner {
            shared,
            bus,
            kind,
            database: database.into(),
            tasks,
        });
        Ok(Self {
            inner,
            backend,
            idempotent: false,
        })
    }

    /// Kind of the store.
    pub fn kind(&self) -> StoreKind {
        self.inner.kind
    }

    /// The bus, which publishes and subscribes.
    pub fn bus(&self) -> &Bus {
        &self.inner.bus
    }

    /// The clock, which shows the store's time.
    pub fn clock(&self) -> &StoreClock {
        &self.inner.shared.clock
    }

    /// Returns the same store for idempotent calls. If the reply of such a call is lost, the store retries the call.
    /// Otherwise it retries only read-only commands.
    pub fn idempotent(&self) -> Self {
        Self {
            idempotent: true,
            ..self.clone()
        }
    }

    /// Returns the same store with volatile updates: the embedded engine does not write updated values and deadlines to
    /// disk, so after a restart they may be older. Keys and items that such calls create or delete are written as
    /// usual. A full or hanging disk does not reject these calls. On a Redis or Valkey server this has no effect.
    pub fn with_volatile_updates(&self) -> Self {
        let mut store = self.clone();
        if let StoreBackend::Embedded(connection) = &mut store.backend {
            *connection = connection.with_volatile_updates();
        }
        store
    }

    /// Returns the same store for calls that the embedded engine accepts while its disk is full or hangs, up to a limit.
    /// Their changes reach the disk when it works again. On a Redis or Valkey server this has no effect.
    pub fn with_deferred_writes(&self) -> Self {
        let mut store = self.clone();
        if let StoreBackend::Embedded(connection) = &mut store.backend {
            *connection = connection.with_deferred_writes();
        }
        store
    }

    /// Waits until every change that was made before the call is on disk (embedded engine with a data folder); fails if
    /// the disk is full or hangs. Does nothing on a server, whose durability is configured there. Concurrent callers share one write.
    pub async fn wait_until_durable(&self) -> RedisResult<()> {
        let StoreBackend::Embedded(connection) = &self.backend else {
            return Ok(());
        };
        embedded_backend::wait_until_durable(connection).await
    }

    /// Checks that the store answers and accepts writes. Fails with an error of the class `Full` or `Unavailable`.
    pub async fn check_writable(&self) -> RedisResult<()> {
        match &self.backend {
            StoreBackend::Embedded(connection) => connection.engine().check_writable(),
            StoreBackend::Redis(redis) => redis.check_writable(self.inner.shared.epoch.key()).await,
        }
    }

    /// True if no accepted change was lost at the last end of the store: false after the embedded engine was killed. True
    /// on a server, which reports a loss by the epoch.
    pub fn previous_run_was_clean(&self) -> bool {
        match &self.backend {
            StoreBackend::Embedded(connection) => connection.engine().previous_run_was_clean(),
            StoreBackend::Redis(_) => true,
        }
    }

    /// Watch of whether the store answers. Used by tests; `/readyz` sends a `PING`.
    pub fn state(&self) -> watch::Receiver<StoreState> {
        self.inner.shared.state()
    }

    /// Watch of the epoch. The epoch rises when the store's data may be older than the last write. State that was
    /// checked in an earlier epoch must be checked again.
    pub fn epoch(&self) -> watch::Receiver<u64> {
        self.inner.shared.epoch.subscribe()
    }

    /// The current epoch.
    pub fn current_epoch(&self) -> u64 {
        self.inner.shared.epoch.current()
    }

    /// Raises the epoch, so that every node checks its state again. For tools that have changed the data from outside.
    /// Returns the new epoch.
    pub async fn raise_epoch(&self) -> RedisResult<u64> {
        let epoch = self.inner.shared.epoch.raise_call().run(self).await?;
        self.inner.shared.epoch.adopt(epoch);
        Ok(epoch)
    }

    /// Runs a command on each primary, for questions about the servers themselves (`INFO`, `CONFIG GET`). Returns the
    /// address and the reply of each server. A store that is not a Cluster gives one entry.
    pub async fn query_each_primary(&self, cmd: &Cmd) -> Vec<(String, RedisResult<Value>)> {
        match &self.backend {
            StoreBackend::Embedded(_) => {
                let reply = self.backend.execute(cmd, false).await;
                vec![("embedded".to_owned(), reply.and_then(Value::extract_error))]
            }
            StoreBackend::Redis(redis) => redis.query_each_primary(cmd).await,
        }
    }

    /// Iterates over the keys that match a pattern, about `count` keys per step.
    pub fn scan(&self, pattern: &str, count: usize) -> KeyScan {
        KeyScan::new(
            self.backend.clone(),
            self.inner.shared.request_timeout,
            pattern,
            count,
        )
    }

    /// Flushes all changes (embedded engine) and ends all subscriptions and background tasks. Later calls fail, except
    /// reads of the embedded engine.
    pub async fn close(&self) {
        self.inner.bus.close();
        self.inner.tasks.abort_all();
        match &self.backend {
            StoreBackend::Embedded(connection) => connection.engine().close().await,
            StoreBackend::Redis(redis) => redis.close(),
        }
    }

    /// Runs a command without a future. Returns `None` on a server, and on the embedded engine if the command has to
    /// wait for a flush or if its script is not loaded.
    pub(crate) fn try_execute(&self, cmd: &Cmd) -> Option<RedisResult<Value>> {
        match &self.backend {
            StoreBackend::Embedded(connection) => embedded_backend::try_execute(connection, cmd),
            StoreBackend::Redis(_) => None,
        }
    }
}

impl StoreBackend {
    /// Runs one command.
    pub(crate) async fn execute(&self, cmd: &Cmd, idempotent: bool) -> RedisResult<Value> {
        match self {
            Self::Embedded(connection) => {
                embedded_backend::execute(&mut connection.clone(), cmd).await
            }
            Self::Redis(redis) => redis.execute(cmd, idempotent).await,
        }
    }
}

impl ConnectionLike for Store {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match &mut self.backend {
            StoreBackend::Embedded(connection) => embedded_backend::execute(connection, cmd),
            StoreBackend::Redis(redis) => Box::pin(redis.execute(cmd, self.idempotent)),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match &mut self.backend {
            StoreBackend::Embedded(connection) => {
                embedded_backend::execute_pipeline(connection, pipeline, offset, count)
            }
            StoreBackend::Redis(redis) => {
                Box::pin(redis.pipeline(pipeline, offset, count, self.idempotent))
            }
        }
    }

    fn get_db(&self) -> i64 {
        self.inner.database
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({:?})", self.inner.kind)
    }
}
