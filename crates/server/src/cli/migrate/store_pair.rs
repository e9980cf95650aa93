//! Opens both stores of a migration, and rejects stores that servers use.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, bail};
use parlor_chat::keys::TtlName;
use parlor_store::{Store, StoreKind, StoreOptions, StoreUrl};
use redis::InfoDict;
use redis::aio::ConnectionLike;

use super::super::store_reader::{find_live_node, has_store, keyspace_of, require_store};
use super::copy_value::MigrationStore;
use super::key_mapping::KeyMapping;
use super::{MigrationOptions, StoreArgs};
use crate::config::{LoadedConfig, set_default_password};

/// Minimum timeout of a request, because some values are large.
const MIN_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Source and target of a migration.
pub struct StorePair {
    /// The store that is copied; nothing is written to it.
    pub source: MigrationStore,
    /// `None` if the target does not exist yet and the run does not write.
    pub target: Option<MigrationStore>,
    /// Names of the keys in both.
    pub keys: KeyMapping,
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
        options: MigrationOptions,
    ) -> anyhow::Result<Self> {
        let mut from = store_options(loaded, "--from", args.from)?;
        let mut to = store_options(loaded, "--to", args.to)?;
        if from.url == to.url {
            bail!("--from and --to name the same store; there is nothing to copy");
        }
        from.read_only = true;
        to.read_only = options.dry_run || options.verify;
        let mut settings = loaded.config.keys.clone();
        let before = keyspace_of(&from.url, settings.clone())?;
        if let Some(prefix) = args.to_prefix {
            prefix.clone_into(&mut settings.prefix);
            prefix.clone_into(&mut to.key_prefix);
        }
        let keys = KeyMapping {
            from: before,
            to: keyspace_of(&to.url, settings)?,
            all: args.all,
        };
        let (from_url, to_url) = (from.url.to_string(), to.url.to_string());
        let lock = lock(&from, options)?;
        let source = MigrationStore::new(Store::open(from).await?).await?;
        let target = match &to.data_folder {
            Some(folder) if to.read_only && !has_store(folder) => None,
            _ => Some(MigrationStore::new(Store::open(to).await?).await?),
        };
        let pair = Self {
            source,
            target,
            keys,
            from: from_url,
            to: to_url,
            _lock: lock,
        };
        pair.reject_if_in_use(options).await?;
        Ok(pair)
    }

    /// Rejects two names of one store, and stores that servers use.
    async fn reject_if_in_use(&self, options: MigrationOptions) -> anyhow::Result<()> {
        let Some(target) = &self.target else {
            return Ok(());
        };
        let same_place = self.source.store.kind() == target.store.kind()
            && ConnectionLike::get_db(&self.source.store) == ConnectionLike::get_db(&target.store);
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
        if options.force || options.dry_run {
            return Ok(());
        }
        let both = [
            (&self.source, &self.keys.from, &self.from),
            (target, &self.keys.to, &self.to),
        ];
        for (store, keys, url) in both {
            if store.store.kind() == StoreKind::Embedded {
                continue;
            }
            if let Some(node) = find_live_node(&store.store, keys).await? {
                bail!(
                    "the store {url} is in use by the node {node}; stop every server (a killed server counts as running for {} s), or skip this check with --force",
                    keys.ttl(TtlName::NodeLease).as_secs()
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

fn store_options(loaded: &LoadedConfig, flag: &str, url: &str) -> anyhow::Result<StoreOptions> {
    let mut url: StoreUrl = url.parse().with_context(|| flag.to_owned())?;
    set_default_password(&mut url, &loaded.values);
    let config = &loaded.config;
    Ok(StoreOptions {
        data_folder: (url == StoreUrl::Embedded).then(|| config.server.data_folder.clone()),
        url,
        request_timeout: config.store.request_timeout.max(MIN_REQUEST_TIMEOUT),
        ..config.store.clone()
    })
}

/// Locks the folder of an embedded source so that no server starts in it. A dry run does not need the lock.
fn lock(
    from: &StoreOptions,
    options: MigrationOptions,
) -> anyhow::Result<Option<parlor_embedded::DataFolderLock>> {
    let Some(folder) = &from.data_folder else {
        return Ok(None);
    };
    require_store(folder)?;
    if options.dry_run {
        return Ok(None);
    }
    Ok(Some(parlor_embedded::DataFolderLock::acquire(folder)?))
}

/// The run ids of the servers that hold a store; empty if they do not report one.
async fn run_ids(store: &MigrationStore) -> HashSet<String> {
    let info = redis::cmd("INFO").arg("server").take();
    let replies = store.store.query_each_primary(&info).await;
    let infos = replies.into_iter().filter_map(|(_, reply)| reply.ok());
    infos
        .filter_map(|reply| {
            redis::from_redis_value::<InfoDict>(reply)
                .ok()?
                .get("run_id")
        })
        .collect()
}

/// Approximate number of keys; 0 if the servers do not report it.
pub async fn key_count(store: &MigrationStore) -> u64 {
    let replies = store.store.query_each_primary(&redis::cmd("DBSIZE")).await;
    let sizes = replies.into_iter().filter_map(|(_, reply)| reply.ok());
    sizes
        .filter_map(|reply| redis::from_redis_value::<u64>(reply).ok())
        .sum()
}
