//! Store of a benchmark, and the resources that the node and the store use.

use std::ops::{Add, Sub};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use parlor_chat::context::ChatContext;
use parlor_chat::ids::NodeId;
use parlor_chat::keys::{KeySettings, Keyspace};
use parlor_chat::nodes::LocalNode;
use parlor_chat::presence::Presence;
use parlor_store::{ManualClock, Store, StoreOptions};
use parlor_testkit::Redis;
use redis::cmd;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::measure::{cpu_time, disk_bytes_written, thread_cpu_time};

pub const GRACE: Duration = Duration::from_secs(5);
/// Thread of the embedded store that writes to disk and deletes expired keys.
const FLUSH_THREAD: &str = "parlor-store";

/// Store that holds the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Embedded store, flushed to a folder every second.
    Embedded,
    /// Embedded store without a folder.
    Memory,
    /// Redis that writes nothing to disk.
    Redis,
    /// Redis that writes to its append-only file every second.
    RedisAof,
}

impl Engine {
    pub const ALL: [Self; 4] = [Self::Embedded, Self::Memory, Self::Redis, Self::RedisAof];

    pub fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Memory => "embedded-in-memory",
            Self::Redis => "Redis",
            Self::RedisAof => "Redis-with-AOF",
        }
    }

    /// Number of concurrent calls: single calls to a server would measure the round trip.
    pub fn tasks(self) -> usize {
        match self {
            Self::Embedded | Self::Memory => 1,
            Self::Redis | Self::RedisAof => 64,
        }
    }
}

/// Wall time and CPU time in seconds, by process or thread, and bytes written to disk.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct ResourceUsage {
    pub wall_secs: f64,
    /// This process without the thread of the embedded store.
    pub node_cpu_secs: f64,
    /// Thread of the embedded store.
    pub flush_cpu_secs: f64,
    /// Redis server.
    pub server: f64,
    /// Bytes written to disk by this process and the server.
    pub disk_bytes: f64,
}

impl ResourceUsage {
    pub fn cpu(&self) -> f64 {
        self.node_cpu_secs + self.flush_cpu_secs + self.server
    }

    /// Divides all values by `count`.
    pub fn per(self, count: f64) -> Self {
        self.combine(self, |seconds, _| seconds / count)
    }

    fn combine(self, other: Self, join: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            wall_secs: join(self.wall_secs, other.wall_secs),
            node_cpu_secs: join(self.node_cpu_secs, other.node_cpu_secs),
            flush_cpu_secs: join(self.flush_cpu_secs, other.flush_cpu_secs),
            server: join(self.server, other.server),
            disk_bytes: join(self.disk_bytes, other.disk_bytes),
        }
    }
}

impl Add for ResourceUsage {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        self.combine(more, Add::add)
    }
}

impl Sub for ResourceUsage {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        self.combine(before, Sub::sub)
    }
}

/// Open store of a benchmark.
pub struct StoreFixture {
    pub engine: Engine,
    pub store: Store,
    redis: Option<Redis>,
    _folder: TempDir,
    started_at: Instant,
}

impl StoreFixture {
    pub async fn open(engine: Engine, clock: Option<ManualClock>) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let redis = match engine {
            Engine::Embedded | Engine::Memory => None,
            Engine::Redis => Some(Redis::start().await),
            Engine::RedisAof => {
                let options = Redis::options().config("appendonly yes");
                Some(options.config("appendfsync everysec").start().await)
            }
        };
        let options = match &redis {
            Some(redis) => StoreOptions::new(redis.url().parse()?),
            None => StoreOptions::default(),
        };
        let data = (engine == Engine::Embedded).then(|| folder.path().to_owned());
        let store = Store::open(StoreOptions {
            data_folder: data,
            clock,
            // The heartbeats of a large node are one long pipeline, which may take long on a busy machine.
            request_timeout: Duration::from_secs(30),
            ..options
        });
        Ok(Self {
            engine,
            store: store.await?,
            redis,
            _folder: folder,
            started_at: Instant::now(),
        })
    }

    /// Starts presence on this store.
    pub async fn node(
        &self,
        id: &str,
        settings: KeySettings,
    ) -> anyhow::Result<(Presence, Keyspace)> {
        let keys = Keyspace::new(settings, false)?;
        let ctx = ChatContext::new(self.store.clone(), keys.clone());
        let nodes = LocalNode::new(ctx.clone(), NodeId::new(id)?, GRACE);
        let presence = Presence::new(ctx, Arc::new(nodes));
        presence.start().await?;
        Ok((presence, keys))
    }

    /// Resources used so far.
    pub async fn usage(&self) -> anyhow::Result<ResourceUsage> {
        let flush = thread_cpu_time(FLUSH_THREAD)?;
        let mut disk = disk_bytes_written("self")?;
        let mut server = 0.0;
        if let Some(redis) = &self.redis {
            disk += disk_bytes_written(&redis.pid().to_string())?;
            server =
                self.info("cpu", "used_cpu_user").await? + self.info("cpu", "used_cpu_sys").await?;
        }
        Ok(ResourceUsage {
            wall_secs: self.started_at.elapsed().as_secs_f64(),
            node_cpu_secs: cpu_time().saturating_sub(flush).as_secs_f64(),
            flush_cpu_secs: flush.as_secs_f64(),
            server,
            disk_bytes: disk as f64,
        })
    }

    /// Bytes that the Redis server uses for its data.
    pub async fn server_memory(&self) -> anyhow::Result<f64> {
        match self.redis {
            Some(_) => self.info("memory", "used_memory").await,
            None => Ok(0.0),
        }
    }

    /// Number in the INFO of the Redis server.
    pub async fn info(&self, section: &str, field: &str) -> anyhow::Result<f64> {
        Ok(self.info_text(section, field).await?.parse()?)
    }

    /// Text in the INFO of the Redis server.
    pub async fn info_text(&self, section: &str, field: &str) -> anyhow::Result<String> {
        let mut store = self.store.clone();
        let info: String = cmd("INFO").arg(section).query_async(&mut store).await?;
        let value = info
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(value.context("INFO has no such field")?.trim().to_owned())
    }

    /// Waits until CPU time shows that no writes are pending.
    pub async fn settle(&self) -> anyhow::Result<()> {
        const IDLE_WINDOW: Duration = Duration::from_millis(1_500);
        loop {
            let before = self.usage().await?;
            tokio::time::sleep(IDLE_WINDOW).await;
            if (self.usage().await? - before).cpu() < 0.05 {
                return Ok(());
            }
        }
    }
}
