//! Copies the store.
//!
//! Invariants:
//! 1. The target is marked as incomplete from before the first key until everything was compared. No server starts with
//!    it.
//! 2. A key that is equal in source and target is not written, so an interrupted migration continues where it stopped.
//! 3. In the end the epoch of the target is above that of the source, so servers check copied data before they use it.

use anyhow::{Context, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use parlor_chat::database::copy::{CopyProgress, incomplete_copy_id, is_incomplete_copy_id};
use redis::RedisResult;

use super::super::escape::escape;
use super::super::progress::TaskProgress;
use super::super::store_reader::{SCAN_BATCH, SeenKeys};
use super::MigrationOptions;
use super::copy_key::{KeyComparison, KeyToCopy, compare_key, copy_key};
use super::copy_value::MigrationStore;
use super::key_mapping::KeyAction;
use super::report::MigrationReport;
use super::store_pair::{self, StorePair};

/// Keys that are copied or compared at the same time.
const MAX_CONCURRENT_KEYS: usize = 32;

/// Migration of the store.
pub struct StoreMigration {
    stores: StorePair,
    options: MigrationOptions,
    /// Id of the database that the store belongs to, if it was ever used.
    id: Option<String>,
    state: CopyProgress,
    report: MigrationReport,
}

impl StoreMigration {
    /// Rejects a source or target that must not be used; `database` is the id of the database that is copied along.
    pub async fn open(
        stores: StorePair,
        options: MigrationOptions,
        database: Option<&str>,
    ) -> anyhow::Result<Self> {
        let id: Option<String> = {
            let key = stores.keys.from.database_id();
            stores.source.query(redis::cmd("GET").arg(&key)).await?
        };
        match (&id, database) {
            (Some(id), _) if is_incomplete_copy_id(id) => bail!(
                "the store {} is an incomplete copy; copy from the original store",
                stores.from
            ),
            (Some(id), Some(database)) if id != database => bail!(
                "store and database do not belong together: the store {} was filled from the database {id}, but the database to copy is {database}",
                stores.from
            ),
            _ => {}
        }
        let id = id.or(database.map(str::to_owned));
        let state = Self::inspect_target(&stores, options, id.as_deref()).await?;
        let report = MigrationReport::new(stores.from.clone(), stores.to.clone());
        Ok(Self {
            stores,
            options,
            id,
            state,
            report,
        })
    }

    /// How far a copy of this store has come in the target. A target with other contents is rejected.
    async fn inspect_target(
        stores: &StorePair,
        options: MigrationOptions,
        id: Option<&str>,
    ) -> anyhow::Result<CopyProgress> {
        let Some(target) = &stores.target else {
            return Ok(CopyProgress::NotStarted);
        };
        let key = stores.keys.to.database_id();
        let found: Option<String> = target.query(redis::cmd("GET").arg(&key)).await?;
        let own = id.unwrap_or_default();
        let url = &stores.to;
        match found {
            Some(found) if found == incomplete_copy_id(own) => return Ok(CopyProgress::InProgress),
            Some(found) if found == own => return Ok(CopyProgress::Complete),
            Some(found) => bail!(
                "the store {url} belongs to another database ({key} is {found}); choose an empty store"
            ),
            None if options.verify && id.is_some() => {
                bail!("there is no copy in the store {url} yet")
            }
            None if !options.force && !options.verify => {
                let back = stores.keys.reversed();
                let mut scan = target.store.scan("*", SCAN_BATCH);
                while let Some(keys) = scan.next().await? {
                    let ours =
                        |key: &&bytes::Bytes| matches!(back.action_for(key), KeyAction::Copy(..));
                    if let Some(key) = keys.iter().find(ours) {
                        bail!(
                            "the store {url} already contains keys of Parlor, such as {}, but not the id of their database; choose an empty store, or overwrite them with --force",
                            escape(key)
                        );
                    }
                }
            }
            None => {}
        }
        Ok(CopyProgress::NotStarted)
    }

    /// Runs the migration. The copy is complete when all keys are equal.
    pub async fn run(mut self) -> anyhow::Result<MigrationReport> {
        if self.options.dry_run {
            self.process_keys(MigrationPass::Count).await?;
        } else if self.options.verify || self.state == CopyProgress::Complete && !self.options.force
        {
            self.report.complete_before = self.state == CopyProgress::Complete;
            self.verify().await?;
        } else {
            self.mark_incomplete().await?;
            if self.state == CopyProgress::InProgress {
                self.handle_extra_keys(true).await?;
            }
            self.process_keys(MigrationPass::Copy).await?;
            self.verify().await?;
            if self.report.different == 0 {
                self.complete().await?;
            }
        }
        self.stores.close().await;
        Ok(self.report)
    }

    fn target(&self) -> anyhow::Result<&MigrationStore> {
        self.stores
            .target
            .as_ref()
            .context("the target is not open")
    }

    async fn mark_incomplete(&self) -> anyhow::Result<()> {
        let mark = incomplete_copy_id(self.id.as_deref().unwrap_or_default());
        let key = self.stores.keys.to.database_id();
        let set = redis::cmd("SET").arg(&key).arg(mark).take();
        Ok(self.target()?.query(&set).await?)
    }

    async fn complete(&self) -> anyhow::Result<()> {
        let (keys, target) = (&self.stores.keys, self.target()?);
        let epoch = redis::cmd("HGET")
            .arg(keys.from.epoch())
            .arg("epoch")
            .take();
        let epoch: Option<u64> = self.stores.source.query(&epoch).await?;
        if epoch.is_some_and(|epoch| epoch > *target.store.epoch().borrow()) {
            let set = redis::cmd("HSET")
                .arg(keys.to.epoch())
                .arg("epoch")
                .arg(epoch)
                .take();
            target.query::<()>(&set).await?;
        }
        target.store.raise_epoch().await?;
        let key = keys.to.database_id();
        let last = match &self.id {
            Some(id) => redis::cmd("SET").arg(&key).arg(id).take(),
            None => redis::cmd("DEL").arg(&key).take(),
        };
        Ok(target.query(&last).await?)
    }

    async fn verify(&mut self) -> anyhow::Result<()> {
        self.process_keys(MigrationPass::Verify).await?;
        self.handle_extra_keys(false).await
    }

    /// Processes all keys of the source once.
    async fn process_keys(&mut self, pass: MigrationPass) -> anyhow::Result<()> {
        let total = store_pair::key_count(&self.stores.source).await;
        let (label, max_per_second) = match pass {
            MigrationPass::Copy => ("store", self.options.max_per_second),
            MigrationPass::Count => ("store, counting", 0),
            MigrationPass::Verify => ("store, verifying", 0),
        };
        let batch = match max_per_second {
            0 => SCAN_BATCH,
            rate => usize::try_from(rate).map_or(SCAN_BATCH, |rate| rate.min(SCAN_BATCH)),
        };
        let mut progress = TaskProgress::new(label, "keys", total, max_per_second);
        let mut scan = self.stores.source.store.scan("*", batch);
        let mut seen = SeenKeys::default();
        while let Some(keys) = scan.next().await? {
            let keys = keys.iter().filter(|key| seen.insert(key));
            let keys: Vec<&[u8]> = keys.map(AsRef::as_ref).collect();
            let items = self.classify_keys(&keys, pass);
            self.process_batch(&items, pass).await?;
            progress.add(keys.len() as u64);
            progress.throttle().await;
        }
        progress.finish();
        Ok(())
    }

    /// The keys to copy, with their names and capabilities. The other keys are counted.
    fn classify_keys<'a>(&mut self, keys: &[&'a [u8]], pass: MigrationPass) -> Vec<KeyToCopy<'a>> {
        // A verification after a copy must not count the keys again.
        let first =
            pass != MigrationPass::Verify || self.options.verify || self.report.complete_before;
        let mut items = Vec::new();
        for key in keys {
            match self.stores.keys.action_for(key) {
                KeyAction::Copy(target_name, capability) => items.push(KeyToCopy {
                    source_name: key,
                    target_name,
                    capability,
                }),
                KeyAction::Skip if first => self.report.skipped += 1,
                KeyAction::Undeclared if first => self.report.undeclared += 1,
                KeyAction::Skip | KeyAction::Undeclared => {}
            }
        }
        if first {
            for item in &items {
                self.report.counts_of(item.capability).found += 1;
            }
        }
        items
    }

    async fn process_batch(
        &mut self,
        items: &[KeyToCopy<'_>],
        pass: MigrationPass,
    ) -> anyhow::Result<()> {
        if pass == MigrationPass::Count {
            for item in items {
                self.report.counts_of(item.capability).copied += 1;
            }
            return Ok(());
        }
        let (source, target) = (&self.stores.source, self.target()?);
        let all = stream::iter(items).map(async |item| {
            let seen = match pass {
                MigrationPass::Copy => copy_key(source, target, item).await,
                _ => compare_key(source, target, item).await,
            };
            let seen = seen.with_context(|| escape(item.source_name))?;
            anyhow::Ok((item, seen))
        });
        let all: Vec<_> = all
            .buffer_unordered(MAX_CONCURRENT_KEYS)
            .try_collect()
            .await?;
        for (item, seen) in all {
            let counts = self.report.counts_of(item.capability);
            match (pass, seen) {
                (MigrationPass::Copy, KeyComparison::Same) => counts.unchanged += 1,
                (MigrationPass::Copy, KeyComparison::Different(_)) => counts.copied += 1,
                (_, KeyComparison::Same) => counts.verified += 1,
                (_, KeyComparison::Different(what)) => self.report.add_difference(what),
                (_, KeyComparison::Missing) => {}
            }
        }
        Ok(())
    }

    /// Removes keys of the target that the source does not have, or reports them as differences.
    async fn handle_extra_keys(&mut self, remove: bool) -> anyhow::Result<()> {
        let (source, target) = (self.stores.source.clone(), self.target()?.clone());
        let back = self.stores.keys.reversed();
        let exists = |key: &[u8]| redis::cmd("EXISTS").arg(key).take();
        let mut scan = target.store.scan("*", SCAN_BATCH);
        while let Some(keys) = scan.next().await? {
            let extra = stream::iter(&keys).map(async |key| -> RedisResult<_> {
                let KeyAction::Copy(name, _) = back.action_for(key) else {
                    return Ok(None);
                };
                let extra = !source.query::<bool>(&exists(&name)).await?
                    && target.query::<bool>(&exists(key)).await?;
                Ok(extra.then_some(key))
            });
            let extra: Vec<_> = extra
                .buffer_unordered(MAX_CONCURRENT_KEYS)
                .try_collect()
                .await?;
            for key in extra.into_iter().flatten() {
                if remove {
                    target.query::<()>(redis::cmd("DEL").arg(&key[..])).await?;
                } else {
                    self.report
                        .add_difference(format!("{} is not in the source", escape(key)));
                }
            }
        }
        Ok(())
    }
}

/// One pass over the keys of the source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MigrationPass {
    Count,
    Copy,
    Verify,
}
