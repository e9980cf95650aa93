//! Opens both stores of a migration, and rejects stores that servers use.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, bail};
use parlor_chat::ids::NodeId;
use parlor_chat::keys::Keyspace;
use parlor_store::{Store, StoreOptions, StoreUrl};
use redis::Value;

use super::super::store_reader::has_store;
use super::copy_value::MigrationStore;
use super::key_mapping::KeyMapping;
use super::{MigrationOptions, StoreArgs};
use crate::config::LoadedConfig;

/// Minimum timeout of a request, because some values are large.
const MIN_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Source and target of a migration.
pub struct StorePair {
    /// The store that is copied; nothing is written to it.
    pub source: MigrationStore,
    /// `None` if the target does not exist yet and the run does not write.
    pub target: Option<MigrationStore>,
    /// Names of the keys in both.
    pub names: KeyMapping,
    /// URL of the source, without a password.
    pub from: String,
    /// URL of the target, without a password.
    pub to: String,
    /// Lock that keeps servers out of the folder of the source.
    _lock: Option<parlor_embedded::DataFolderLock>,
}

impl StorePair {
    /// Opens both stores.
    pub async fn open(
        loaded: &LoadedConfig,
        args: &StoreArgs<'_>,
        task: MigrationOptions,
    ) -> anyhow::Result<Self> {
        let mut from = options(loaded, "--from", args.from)?;
        let mut to = options(loaded, "--to", args.to)?;
        if from.url == to.url {
            bail!("--from and --to name the same store; there is nothing to copy");
        }
        from.read_only = true;
        to.read_only = task.dry_run || task.verify;
        let mut settings = loaded.config.keys.clone();
        let before = keyspace(&from, settings.clone())?;
        if let Some(prefix) = args.to_prefix {
            prefix.clone_into(&mut settings.prefix);
            prefix.clone_into(&mut to.key_prefix);
        }
        let names = KeyMapping {
            from: before,
            to: keyspace(&to, settings)?,
            all: args.all,
        };
        let (from_url, to_url) = (from.url.to_string(), to.url.to_string());
        let lock = lock(&from, task)?;
        let source = MigrationStore::new(Store::open(from).await?).await?;
        let target = match &to.data_folder {
            Some(folder) if to.read_only && !has_store(folder) => None,
            _ => Some(MigrationStore::new(Store::open(to).await?).await?),
        };
        let sides = Self {
            source,
            target,
            names,
            from: from_url,
            to: to_url,
            _lock: lock,
        };
        sides.reject_if_in_use(task).await?;
        Ok(sides)
    }

    /// Rejects two names of one store, and stores that servers use.
    async fn reject_if_in_use(&self, task: MigrationOptions) -> anyhow::Result<()> {
        let Some(target) = &self.target else {
            return Ok(());
        };
        let same_place = self.source.store.kind() == target.store.kind()
            && redis::aio::ConnectionLike::get_db(&self.source.store)
                == redis::aio::ConnectionLike::get_db(&target.store);
        if same_place
            && !run_ids(&self.source)
                .await
                .is_disjoint(&run_ids(target).await)
        {
            bail!(
                "{} and {} are the same store; there is nothing to copy",
                self.from,
                self.to
            );
        }
        if task.force || task.dry_run {
            return Ok(());
        }
        let both = [
            (&self.source, &self.names.from, &self.from),
            (target, &self.names.to, &self.to),
        ];
        for (side, keys, url) in both {
            if side.store.kind() == parlor_store::StoreKind::Embedded {
                continue;
            }
            if let Some(node) = live_node(side, keys).await? {
                bail!(
                    "the store {url} is in use by the node {node}; stop every server (a killed server counts as running for {} s), or skip this check with --force",
                    keys.ttl(parlor_chat::keys::TtlName::NodeLease).as_secs()
                );
            }
        }
        Ok(())
    }

    /// Closes both stores and flushes them.
    pub async fn close(&self) {
        self.source.store.close().await;
        if let Some(target) = &self.target {
            target.store.close().await;
        }
    }
}

fn options(loaded: &LoadedConfig, flag: &str, url: &str) -> anyhow::Result<StoreOptions> {
    let mut url: StoreUrl = url.parse().with_context(|| flag.to_owned())?;
    if let StoreUrl::Redis { login, .. }
    | StoreUrl::Sentinel { login, .. }
    | StoreUrl::Cluster { login, .. } = &mut url
    {
        let given = loaded.values.optional("store.password");
        login.password = login.password.take().or(given.map(str::to_owned));
    }
    let config = &loaded.config;
    Ok(StoreOptions {
        data_folder: (url == StoreUrl::Embedded).then(|| config.server.data_folder.clone()),
        url,
        timeout: config.store.timeout.max(MIN_REQUEST_TIMEOUT),
        ..config.store.clone()
    })
}

fn keyspace(
    options: &StoreOptions,
    settings: parlor_chat::keys::KeySettings,
) -> anyhow::Result<Keyspace> {
    let cluster = matches!(options.url, StoreUrl::Cluster { .. });
    Ok(Keyspace::new(settings, cluster)?)
}

/// Locks the folder of an embedded source so that no server starts in it. A dry run does not need the lock.
fn lock(
    from: &StoreOptions,
    task: MigrationOptions,
) -> anyhow::Result<Option<parlor_embedded::DataFolderLock>> {
    let Some(folder) = &from.data_folder else {
        return Ok(None);
    };
    if !has_store(folder) {
        bail!(
            "there is no store in {}; choose the data folder with --data",
            folder.display()
        );
    }
    if task.dry_run {
        return Ok(None);
    }
    Ok(Some(parlor_embedded::DataFolderLock::acquire(folder)?))
}

/// The run ids of the servers that hold a store; empty if they do not report one.
async fn run_ids(side: &MigrationStore) -> HashSet<String> {
    let info = redis::cmd("INFO").arg("server").take();
    let told = side.store.query_each_primary(&info).await;
    let texts = told.into_iter().filter_map(|(_, told)| told.ok());
    let texts = texts.filter_map(|told: Value| redis::from_redis_value::<String>(told).ok());
    let run = |text: String| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix("run_id:").map(str::to_owned))
    };
    texts.filter_map(run).collect()
}

/// A node whose lease has not expired.
async fn live_node(side: &MigrationStore, keys: &Keyspace) -> anyhow::Result<Option<String>> {
    let all = redis::cmd("ZRANGE").arg(keys.nodes()).arg(0).arg(-1).take();
    let nodes: Vec<String> = side.ask(&all).await?;
    for node in nodes {
        let Ok(id) = NodeId::new(&node) else { continue };
        if side
            .ask::<bool>(redis::cmd("EXISTS").arg(keys.node(&id)))
            .await?
        {
            return Ok(Some(node));
        }
    }
    Ok(None)
}

/// Approximate number of keys; 0 if the servers do not report it.
pub async fn key_count(side: &MigrationStore) -> u64 {
    let told = side.store.query_each_primary(&redis::cmd("DBSIZE")).await;
    let sizes = told.into_iter().filter_map(|(_, told)| told.ok());
    sizes
        .filter_map(|told| redis::from_redis_value::<u64>(told).ok())
        .sum()
}
