//! Read access to a store: the configured Redis, or the last flushed state of an embedded store.
//!
//! Invariants:
//! 1. The embedded store is opened read-only, so a running server is not disturbed and nothing changes.
//! 2. On Redis, at most the key `parlor:epoch` is written, when [`StoreReader::open_as_server`] opens a store for the
//!    first time.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use anyhow::{Context, bail};
use futures_util::future::try_join_all;
use parlor_chat::keys::Keyspace;
use parlor_embedded::Engine;
use parlor_store::{Store, StoreKind, StoreOptions, StoreUrl};
use redis::aio::ConnectionLike;
use redis::{Cmd, FromRedisValue, Pipeline, RedisFuture, Value};

use crate::config::Config;

/// Keys per SCAN call: few enough that a call does not block the server noticeably.
const SCAN_BATCH: usize = 500;

/// A store that is only read.
#[derive(Clone)]
pub enum Reader {
    /// A Redis or Valkey.
    Store(Store),
    /// The file of an embedded store.
    Embedded(parlor_embedded::EmbeddedConnection),
}

impl Reader {
    /// Opens the configured store; needs read permissions only.
    pub async fn open(config: &Config) -> anyhow::Result<Reader> {
        let mut options = config.store.clone();
        options.read_only = true;
        Self::open_with(config, options).await
    }

    /// Opens the configured store like the server, so it needs the same permissions.
    pub async fn open_as_server(config: &Config) -> anyhow::Result<Reader> {
        Self::open_with(config, config.store.clone()).await
    }

    async fn open_with(config: &Config, options: StoreOptions) -> anyhow::Result<Reader> {
        if options.url != StoreUrl::Embedded {
            return Ok(Reader::Store(Store::open(options).await?));
        }
        let folder = &config.server.data_folder;
        if !has_store(folder) {
            bail!(
                "there is no store in {}; create one with `parlor serve`, or choose another with --data or --store",
                folder.display()
            );
        }
        let engine = Engine::open_read_only(folder)
            .with_context(|| format!("cannot read the store in {}", folder.display()))?;
        eprintln!(
            "reading {} as of its last flush (at most 1 s old while a server runs; lists of recent messages are not included)",
            folder.display()
        );
        Ok(Reader::Embedded(engine.connection()))
    }

    /// Runs a command.
    pub async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> redis::RedisResult<T> {
        command.query_async(&mut self.clone()).await
    }

    /// Runs a command on each primary and returns each address with its reply.
    pub async fn query_each_primary(
        &self,
        command: &Cmd,
    ) -> Vec<(String, redis::RedisResult<Value>)> {
        match self {
            Reader::Store(store) => store.query_each_primary(command).await,
            Reader::Embedded(_) => vec![("embedded".into(), self.ask(command).await)],
        }
    }

    /// Runs one command per key; in one round trip unless the store is a cluster.
    pub async fn query_keys<T: FromRedisValue>(
        &self,
        commands: Vec<Cmd>,
    ) -> redis::RedisResult<Vec<T>> {
        match self {
            Reader::Store(store) if store.kind() == StoreKind::Cluster => {
                try_join_all(commands.iter().map(|command| self.ask(command))).await
            }
            _ => {
                let mut pipe = redis::pipe();
                for command in commands {
                    pipe.add_command(command);
                }
                pipe.query_async(&mut self.clone()).await
            }
        }
    }

    /// Calls `visit` once for every key that matches the pattern until it returns false. Returns true if all keys were
    /// visited.
    pub async fn scan(
        &self,
        pattern: &str,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> anyhow::Result<bool> {
        // SCAN may return a key twice. A 64-bit hash per key is enough to recognize it.
        let mut seen = HashSet::new();
        let mut take = |key: &[u8]| {
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            !seen.insert(hasher.finish()) || each(key)
        };
        match self {
            Reader::Store(store) => {
                let mut scan = store.scan(pattern, SCAN_BATCH);
                while let Some(keys) = scan.next().await? {
                    if !keys.iter().all(|key| take(key)) {
                        return Ok(false);
                    }
                }
            }
            Reader::Embedded(_) => {
                let mut cursor = 0_u64;
                loop {
                    let step = redis::cmd("SCAN")
                        .arg(cursor)
                        .arg("MATCH")
                        .arg(pattern)
                        .arg("COUNT")
                        .arg(SCAN_BATCH)
                        .take();
                    let (next, keys): (u64, Vec<Vec<u8>>) = self.ask(&step).await?;
                    if !keys.iter().all(|key| take(key)) {
                        return Ok(false);
                    }
                    cursor = next;
                    if cursor == 0 {
                        break;
                    }
                }
            }
        }
        Ok(true)
    }
}

impl ConnectionLike for Reader {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Reader::Store(store) => store.req_packed_command(cmd),
            Reader::Embedded(connection) => connection.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        cmd: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Reader::Store(store) => store.req_packed_commands(cmd, offset, count),
            Reader::Embedded(connection) => connection.req_packed_commands(cmd, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Reader::Store(store) => store.get_db(),
            Reader::Embedded(connection) => connection.get_db(),
        }
    }
}

/// True if the folder contains the file of an embedded store.
pub fn has_store(folder: &Path) -> bool {
    folder.join("store.db").exists()
}

/// Names of the keys in the configured store.
pub fn keyspace(config: &Config) -> anyhow::Result<Keyspace> {
    let cluster = matches!(config.store.url, StoreUrl::Cluster { .. });
    Ok(Keyspace::new(config.keys.clone(), cluster)?)
}
