//! Read access to a store: the configured Redis, or the last flushed state of an embedded store.
//!
//! Invariants:
//! 1. The embedded store is opened read-only, so a running server is not disturbed and nothing changes.
//! 2. On Redis, nothing is written either.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use anyhow::{Context, ensure};
use futures_util::future::try_join_all;
use parlor_chat::ids::NodeId;
use parlor_chat::keys::{KeySettings, Keyspace};
use parlor_store::{Store, StoreKind, StoreOpenError, StoreOptions, StoreUrl};
use redis::{Cmd, FromRedisValue, RedisResult};

use crate::config::Config;

/// Keys per SCAN call: few enough that a call does not block the server noticeably.
pub const SCAN_BATCH: usize = 500;

/// Opens the configured store and fails if the credentials do not permit what the server does: scripts that write.
pub async fn open_with_server_rights(config: &Config) -> anyhow::Result<Store> {
    // Removing a field that does not exist needs the permission to write and writes nothing.
    const TRY_TO_WRITE: &str = "return redis.call('HDEL', KEYS[1], '')";
    let store = open(config).await?;
    if store.kind() != StoreKind::Embedded {
        let key = format!("{}parlor:epoch", config.keys.prefix);
        let mut command = redis::cmd("EVAL");
        command.arg(TRY_TO_WRITE).arg(1).arg(key);
        if let Err(source) = query::<i64>(&store, &command).await {
            store.close().await;
            let url = config.store.url.to_string();
            return Err(StoreOpenError::AuthenticationFailed { url, source }.into());
        }
    }
    Ok(store)
}

/// Opens the configured store; needs read permissions only.
pub async fn open(config: &Config) -> anyhow::Result<Store> {
    let is_embedded = config.store.url == StoreUrl::Embedded;
    let options = StoreOptions {
        read_only: true,
        ..config.store.clone()
    };
    if !is_embedded {
        return Ok(Store::open(options).await?);
    }
    let folder = &config.server.data_folder;
    require_store(folder)?;
    let store = Store::open(options)
        .await
        .with_context(|| format!("cannot read the store in {}", folder.display()))?;
    eprintln!(
        "reading {} as of its last flush (at most 1 s old while a server runs; lists of recent messages are not included)",
        folder.display()
    );
    Ok(store)
}

pub async fn query<T: FromRedisValue>(store: &Store, command: &Cmd) -> RedisResult<T> {
    command.query_async(&mut store.clone()).await
}

/// Runs one command per key; in one round trip unless the store is a cluster.
pub async fn query_keys<T: FromRedisValue>(
    store: &Store,
    commands: Vec<Cmd>,
) -> RedisResult<Vec<T>> {
    if store.kind() == StoreKind::Cluster {
        return try_join_all(commands.iter().map(|command| query(store, command))).await;
    }
    let mut pipe = redis::pipe();
    for command in commands {
        pipe.add_command(command);
    }
    pipe.query_async(&mut store.clone()).await
}

/// Runs the command `name` on each key, as [`query_keys`] does.
pub async fn query_each_key<T: FromRedisValue>(
    store: &Store,
    name: &str,
    keys: impl IntoIterator<Item = &Vec<u8>>,
) -> RedisResult<Vec<T>> {
    let commands = keys.into_iter().map(|key| redis::cmd(name).arg(key).take());
    query_keys(store, commands.collect()).await
}

/// Calls `visit` once for every key that matches the pattern until it returns false. Returns true if all keys were
/// visited.
pub async fn scan(
    store: &Store,
    pattern: &str,
    visit: &mut dyn FnMut(&[u8]) -> bool,
) -> RedisResult<bool> {
    let mut seen = SeenKeys::default();
    let mut scan = store.scan(pattern, SCAN_BATCH);
    while let Some(keys) = scan.next().await? {
        if !keys.iter().all(|key| !seen.insert(key) || visit(key)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Keys that a scan has returned, because SCAN may return a key twice. A 64-bit hash per key is enough to recognize it.
#[derive(Default)]
pub struct SeenKeys(HashSet<u64>);

impl SeenKeys {
    /// True if the key was not seen before.
    pub fn insert(&mut self, key: &[u8]) -> bool {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        self.0.insert(hasher.finish())
    }
}

/// True if the folder contains the file of an embedded store.
pub fn has_store(folder: &Path) -> bool {
    folder.join("store.db").exists()
}

/// Fails if the folder does not contain an embedded store.
pub fn require_store(folder: &Path) -> anyhow::Result<()> {
    ensure!(
        has_store(folder),
        "there is no store in {}; create one with `parlor serve`, or choose another with --data or --store",
        folder.display()
    );
    Ok(())
}

/// Names of the keys in the configured store.
pub fn keyspace(config: &Config) -> anyhow::Result<Keyspace> {
    keyspace_of(&config.store.url, config.keys.clone())
}

/// Names of the keys in a store.
pub fn keyspace_of(url: &StoreUrl, settings: KeySettings) -> anyhow::Result<Keyspace> {
    let is_cluster = matches!(url, StoreUrl::Cluster { .. });
    Ok(Keyspace::new(settings, is_cluster)?)
}

/// A node whose lease has not expired.
pub async fn find_live_node(store: &Store, keys: &Keyspace) -> RedisResult<Option<String>> {
    let all = redis::cmd("ZRANGE")
        .arg(keys.node_index())
        .arg(0)
        .arg(-1)
        .take();
    let nodes: Vec<String> = query(store, &all).await?;
    for node in nodes {
        let Ok(id) = NodeId::new(&node) else { continue };
        let exists = redis::cmd("EXISTS").arg(keys.node_lease(&id)).take();
        if query::<bool>(store, &exists).await? {
            return Ok(Some(node));
        }
    }
    Ok(None)
}
