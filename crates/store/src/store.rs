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
use crate::embedded::{self, EmbeddedBackend};
use crate::options::{StoreOpenError, StoreOptions};
use crate::redis::Redis;
use crate::scan::KeyScan;
use crate::shared::{StoreShared, StoreState};
use crate::telemetry::StoreTelemetryEvent;
use crate::url::StoreUrl;

/// Handle to a store: Redis, Valkey, or the embedded engine. Accepts the redis crate's commands, pipelines and scripts.
#[derive(Clone)]
pub struct Store {
    inner: Arc<StoreInner>,
    /// Connection to the embedded engine, `None` for a server.
    embedded: Option<EmbeddedConnection>,
    repeatable: bool,
}

pub(crate) struct StoreInner {
    pub(crate) backend: Arc<StoreBackend>,
    pub(crate) shared: Arc<StoreShared>,
    bus: Bus,
    kind: StoreKind,
    database: i64,
}

/// Executes the commands.
pub(crate) enum StoreBackend {
    Embedded(EmbeddedBackend),
    Redis(Redis),
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
        let engine = Arc::new(match kind {
            StoreKind::Embedded => {
                StoreBackend::Embedded(EmbeddedBackend::open(&options, &shared).await?)
            }
            _ => StoreBackend::Redis(Redis::open(&options, Arc::clone(&shared)).await?),
        });
        let embedded = match &*engine {
            StoreBackend::Embedded(engine) => Some(engine.connection().clone()),
            StoreBackend::Redis(_) => None,
        };
        let bus = Bus::open(&engine, shared.timeout);
        StoreTelemetryEvent::Opened {
            url: &options.url.to_string(),
        }
        .emit();
        let inner = Arc::new(StoreInner {
            backend: engine,
            shared,
            bus,
            kind,
            database: database.into(),
        });
        Ok(Self {
            inner,
            embedded,
            repeatable: false,
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
            repeatable: true,
            ..self.clone()
        }
    }

    /// Returns the same store with volatile updates: the embedded engine does not write updated values and deadlines to
    /// disk, so after a restart they may be older. Keys and items that such calls create or delete are written as
    /// usual. On a Redis or Valkey server this has no effect.
    pub fn with_volatile_updates(&self) -> Self {
        Self {
            embedded: self.embedded.as_ref().map(EmbeddedConnection::fleeting),
            ..self.clone()
        }
    }

    /// Watch of whether the store answers.
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
        match &*self.inner.backend {
            StoreBackend::Embedded(engine) => {
                let reply = embedded::execute(&mut engine.connection().clone(), cmd).await;
                vec![("embedded".to_owned(), reply.and_then(Value::extract_error))]
            }
            StoreBackend::Redis(redis) => redis.each_primary(cmd).await,
        }
    }

    /// Iterates over the keys that match a pattern, about `count` keys per step.
    pub fn scan(&self, pattern: &str, count: usize) -> KeyScan {
        KeyScan::new(Arc::clone(&self.inner), pattern, count)
    }

    /// Flushes all changes (embedded engine) and ends all subscriptions and background tasks. Later calls fail, except
    /// reads of the embedded engine.
    pub async fn close(&self) {
        self.inner.bus.close();
        match &*self.inner.backend {
            StoreBackend::Embedded(engine) => engine.close().await,
            StoreBackend::Redis(redis) => redis.close(),
        }
    }

    /// Runs a command without a future. Returns `None` on a server, and on the embedded engine if the command has to
    /// wait for a flush or if its script is not loaded.
    pub(crate) fn try_execute(&self, cmd: &Cmd) -> Option<RedisResult<Value>> {
        embedded::try_execute(self.embedded.as_ref()?, cmd)
    }
}

impl StoreBackend {
    /// Runs one command.
    pub(crate) async fn execute(&self, cmd: &Cmd, repeatable: bool) -> RedisResult<Value> {
        match self {
            Self::Embedded(engine) => {
                embedded::execute(&mut engine.connection().clone(), cmd).await
            }
            Self::Redis(redis) => redis.execute(cmd, repeatable).await,
        }
    }
}

impl ConnectionLike for Store {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match (&mut self.embedded, &*self.inner.backend) {
            (Some(connection), _) => embedded::execute(connection, cmd),
            (None, StoreBackend::Redis(redis)) => Box::pin(redis.execute(cmd, self.repeatable)),
            (None, StoreBackend::Embedded(_)) => {
                unreachable!("an embedded store has its connection")
            }
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match (&mut self.embedded, &*self.inner.backend) {
            (Some(connection), _) => {
                embedded::execute_pipeline(connection, pipeline, offset, count)
            }
            (None, StoreBackend::Redis(redis)) => {
                Box::pin(redis.pipeline(pipeline, offset, count, self.repeatable))
            }
            (None, StoreBackend::Embedded(_)) => {
                unreachable!("an embedded store has its connection")
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
