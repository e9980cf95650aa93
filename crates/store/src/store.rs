//! The handle that everything else holds.
//!
//! Always true: a `Store` is cheap to clone, and every clone sees the same store, time and epoch.

use std::sync::Arc;

use parlor_embedded::Connection;
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisFuture, RedisResult, Value};
use tokio::sync::watch;

use crate::bus::Bus;
use crate::clock::Clock;
use crate::embedded::{self, Embedded};
use crate::options::{OpenError, Options};
use crate::redis::Redis;
use crate::scan::Scan;
use crate::shared::{Shared, State};
use crate::telemetry::Event;
use crate::url::StoreUrl;

/// A store: Redis or Valkey, or the embedded engine. Takes the redis crate's commands, pipelines and scripts.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    /// The way to the embedded engine, without a detour.
    embedded: Option<Connection>,
    repeatable: bool,
}

pub(crate) struct Inner {
    pub(crate) engine: Arc<Engine>,
    pub(crate) shared: Arc<Shared>,
    bus: Bus,
    kind: Kind,
    database: i64,
}

/// What executes the commands.
pub(crate) enum Engine {
    Embedded(Embedded),
    Redis(Redis),
}

/// The kinds of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared::new(&options));
        let (kind, database) = match &options.url {
            StoreUrl::Embedded => (Kind::Embedded, 0),
            StoreUrl::Redis { database, .. } => (Kind::Standalone, *database),
            StoreUrl::Sentinel { database, .. } => (Kind::Sentinel, *database),
            StoreUrl::Cluster { .. } => (Kind::Cluster, 0),
        };
        let engine = Arc::new(match kind {
            Kind::Embedded => Engine::Embedded(Embedded::open(&options, &shared).await?),
            _ => Engine::Redis(Redis::open(&options, Arc::clone(&shared)).await?),
        });
        let embedded = match &*engine {
            Engine::Embedded(engine) => Some(engine.connection().clone()),
            Engine::Redis(_) => None,
        };
        let bus = Bus::open(&engine, shared.timeout);
        Event::Opened {
            url: &options.url.to_string(),
        }
        .emit();
        let inner = Arc::new(Inner {
            engine,
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
    pub fn kind(&self) -> Kind {
        self.inner.kind
    }

    /// Publish and subscribe.
    pub fn bus(&self) -> &Bus {
        &self.inner.bus
    }

    /// The store's time.
    pub fn clock(&self) -> &Clock {
        &self.inner.shared.clock
    }

    /// The same store, for calls that do no harm when they are executed twice: they are tried again when their reply
    /// was lost, which happens otherwise to reads only.
    pub fn repeatable(&self) -> Self {
        Self {
            repeatable: true,
            ..self.clone()
        }
    }

    /// The same store, for calls that renew values and deadlines which need not outlive the process: the embedded engine
    /// does not write those to disk, and has some earlier ones after a restart. What such calls add or remove is kept.
    /// A server keeps everything as it is configured to.
    pub fn fleeting(&self) -> Self {
        Self {
            embedded: self.embedded.as_ref().map(Connection::fleeting),
            ..self.clone()
        }
    }

    /// Whether the store answers, now and from now on.
    pub fn state(&self) -> watch::Receiver<State> {
        self.inner.shared.state()
    }

    /// The epoch, now and from now on. It rises when the store's data may be older than what was written to it: what
    /// was checked in another epoch has to be checked again.
    pub fn epoch(&self) -> watch::Receiver<u64> {
        self.inner.shared.epoch.watch()
    }

    /// The epoch now.
    pub fn current_epoch(&self) -> u64 {
        self.inner.shared.epoch.now()
    }

    /// Raises the epoch: what was checked before has to be checked again, by every node. For whoever has changed the data
    /// from outside.
    pub async fn distrust(&self) -> RedisResult<u64> {
        let epoch = self.inner.shared.epoch.raise().run(self).await?;
        self.inner.shared.epoch.saw(epoch);
        Ok(epoch)
    }

    /// One command on each primary, for questions about the servers themselves (`INFO`, `CONFIG GET`): the address of
    /// each and what it answered. One server, or the embedded engine, is one entry.
    pub async fn each_primary(&self, cmd: &Cmd) -> Vec<(String, RedisResult<Value>)> {
        match &*self.inner.engine {
            Engine::Embedded(engine) => {
                let reply = embedded::command(&mut engine.connection().clone(), cmd).await;
                vec![("embedded".to_owned(), reply.and_then(Value::extract_error))]
            }
            Engine::Redis(redis) => redis.each_primary(cmd).await,
        }
    }

    /// Walks over the keys that match a pattern, about `count` at a time.
    pub fn scan(&self, pattern: &str, count: usize) -> Scan {
        Scan::new(Arc::clone(&self.inner), pattern, count)
    }

    /// Writes what is not yet written (embedded), ends subscriptions and background work. Later calls fail.
    pub async fn close(&self) {
        self.inner.bus.close();
        match &*self.inner.engine {
            Engine::Embedded(engine) => engine.close().await,
            Engine::Redis(redis) => redis.close(),
        }
    }

    /// The reply to a command that need not be waited for. None on a server, and where the embedded engine has no room for what
    /// is written or does not know the script.
    pub(crate) fn at_once(&self, cmd: &Cmd) -> Option<RedisResult<Value>> {
        embedded::at_once(self.embedded.as_ref()?, cmd)
    }
}

impl Engine {
    /// One command.
    pub(crate) async fn command(&self, cmd: &Cmd, repeatable: bool) -> RedisResult<Value> {
        match self {
            Self::Embedded(engine) => {
                embedded::command(&mut engine.connection().clone(), cmd).await
            }
            Self::Redis(redis) => redis.command(cmd, repeatable).await,
        }
    }
}

impl ConnectionLike for Store {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match (&mut self.embedded, &*self.inner.engine) {
            (Some(connection), _) => embedded::command(connection, cmd),
            (None, Engine::Redis(redis)) => Box::pin(redis.command(cmd, self.repeatable)),
            (None, Engine::Embedded(_)) => unreachable!("an embedded store has its connection"),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match (&mut self.embedded, &*self.inner.engine) {
            (Some(connection), _) => embedded::pipeline(connection, pipeline, offset, count),
            (None, Engine::Redis(redis)) => {
                Box::pin(redis.pipeline(pipeline, offset, count, self.repeatable))
            }
            (None, Engine::Embedded(_)) => unreachable!("an embedded store has its connection"),
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
