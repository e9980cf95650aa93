//! The handle that everything else holds.
//!
//! Always true: a `Store` is cheap to clone, and every clone sees the same store, time and epoch.

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

/// A store: Redis or Valkey, or the embedded engine. Takes the redis crate's commands, pipelines and scripts.
#[derive(Clone)]
pub struct Store {
    inner: Arc<StoreInner>,
    /// The way to the embedded engine, without a detour.
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

/// What executes the commands.
pub(crate) enum StoreBackend {
    Embedded(EmbeddedBackend),
    Redis(Redis),
}

/// The kinds of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// The engine in this process.
    Embedded,
    /// One server.
    Standalone,
    /// A primary that sentinels watch over.
    Sentinel,
    /// A Cluster.
    Cluster,
}

impl Store {
    /// Opens a store. A server that is away is an error here; once open, a store reconnects by itself for ever.
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

    /// What kind of store it is.
    pub fn kind(&self) -> StoreKind {
        self.inner.kind
    }

    /// Publish and subscribe.
    pub fn bus(&self) -> &Bus {
        &self.inner.bus
    }

    /// The store's time.
    pub fn clock(&self) -> &StoreClock {
        &self.inner.shared.clock
    }

    /// The same store, for calls that do no harm when they are executed twice: they are tried again when their reply
    /// was lost, which happens otherwise to reads only.
    pub fn idempotent(&self) -> Self {
        Self {
            repeatable: true,
            ..self.clone()
        }
    }

    /// The same store, for calls that renew values and deadlines which need not outlive the process: the embedded engine
    /// does not write those to disk, and has some earlier ones after a restart. What such calls add or remove is kept.
    /// A server keeps everything as it is configured to.
    pub fn with_volatile_updates(&self) -> Self {
        Self {
            embedded: self.embedded.as_ref().map(EmbeddedConnection::fleeting),
            ..self.clone()
        }
    }

    /// Whether the store answers, now and from now on.
    pub fn state(&self) -> watch::Receiver<StoreState> {
        self.inner.shared.state()
    }

    /// The epoch, now and from now on. It rises when the store's data may be older than what was written to it: what
    /// was checked in another epoch has to be checked again.
    pub fn epoch(&self) -> watch::Receiver<u64> {
        self.inner.shared.epoch.subscribe()
    }

    /// The epoch now.
    pub fn current_epoch(&self) -> u64 {
        self.inner.shared.epoch.current()
    }

    /// Raises the epoch: what was checked before has to be checked again, by every node. For whoever has changed the data
    /// from outside.
    pub async fn raise_epoch(&self) -> RedisResult<u64> {
        let epoch = self.inner.shared.epoch.raise_call().run(self).await?;
        self.inner.shared.epoch.adopt(epoch);
        Ok(epoch)
    }

    /// One command on each primary, for questions about the servers themselves (`INFO`, `CONFIG GET`): the address of
    /// each and what it answered. One server, or the embedded engine, is one entry.
    pub async fn query_each_primary(&self, cmd: &Cmd) -> Vec<(String, RedisResult<Value>)> {
        match &*self.inner.backend {
            StoreBackend::Embedded(engine) => {
                let reply = embedded::execute(&mut engine.connection().clone(), cmd).await;
                vec![("embedded".to_owned(), reply.and_then(Value::extract_error))]
            }
            StoreBackend::Redis(redis) => redis.each_primary(cmd).await,
        }
    }

    /// Walks over the keys that match a pattern, about `count` at a time.
    pub fn scan(&self, pattern: &str, count: usize) -> KeyScan {
        KeyScan::new(Arc::clone(&self.inner), pattern, count)
    }

    /// Writes what is not yet written (embedded), ends subscriptions and background work. Later calls fail.
    pub async fn close(&self) {
        self.inner.bus.close();
        match &*self.inner.backend {
            StoreBackend::Embedded(engine) => engine.close().await,
            StoreBackend::Redis(redis) => redis.close(),
        }
    }

    /// The reply to a command that need not be waited for. None on a server, and where the embedded engine has no room for what
    /// is written or does not know the script.
    pub(crate) fn try_execute(&self, cmd: &Cmd) -> Option<RedisResult<Value>> {
        embedded::try_execute(self.embedded.as_ref()?, cmd)
    }
}

impl StoreBackend {
    /// One command.
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
