//! Copies the store.
//!
//! Invariants:
//! 1. The target is marked as incomplete from before the first key until everything was compared. No server starts with
//!    it.
//! 2. A key that is equal in source and target is not written, so an interrupted migration continues where it stopped.
//! 3. In the end the epoch of the target is above that of the source, so servers check copied data before they use it.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::{Context, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use parlor_chat::database::copy::{CopyProgress, incomplete_copy_id, is_incomplete_copy_id};
use redis::RedisResult;

use super::super::escape::escaped;
use super::MigrationOptions;
use super::copy_key::{KeyToCopy, Seen, compare, copy};
use super::copy_value::MigrationStore;
use super::key_mapping::Fate;
use super::progress::MigrationProgress;
use super::report::MigrationReport;
use super::store_pair::{self, StorePair};

/// Keys per SCAN call.
const STEP: usize = 500;
/// Keys that are copied or compared at the same time.
const AT_ONCE: usize = 32;

/// Migration of the store.
pub struct Move {
    sides: StorePair,
    task: MigrationOptions,
    /// Id of the database that the store belongs to, if it was ever used.
    id: Option<String>,
    state: CopyProgress,
    report: MigrationReport,
}

impl Move {
    /// Rejects a source or target that must not be used; `database` is the id of the database that is copied along.
    pub async fn open(
        sides: StorePair,
        task: MigrationOptions,
        database: Option<&str>,
    ) -> anyhow::Result<Self> {
        let id: Option<String> = {
            let key = sides.names.from.database();
            sides.source.ask(redis::cmd("GET").arg(&key)).await?
        };
        match (&id, database) {
            (Some(id), _) if is_incomplete_copy_id(id) => bail!(
                "the store {} is an incomplete copy; copy from the original store",
                sides.from
            ),
            (Some(id), Some(database)) if id != database => bail!(
                "store and database do not belong together: the store {} was filled from the database {id}, but the database to copy is {database}",
                sides.from
            ),
            _ => {}
        }
        let id = id.or(database.map(str::to_owned));
        let state = Self::inspect_target(&sides, task, id.as_deref()).await?;
        let report = MigrationReport::new(sides.from.clone(), sides.to.clone());
        Ok(Self {
            sides,
            task,
            id,
            state,
            report,
        })
    }

    /// How far a copy of this store has come in the target. A target with other contents is rejected.
    async fn inspect_target(
        sides: &StorePair,
        task: MigrationOptions,
        id: Option<&str>,
    ) -> anyhow::Result<CopyProgress> {
        let Some(target) = &sides.target else {
            return Ok(CopyProgress::NotStarted);
        };
        let key = sides.names.to.database();
        let found: Option<String> = target.ask(redis::cmd("GET").arg(&key)).await?;
        let own = id.unwrap_or_default();
        let url = &sides.to;
        match found {
            Some(found) if found == incomplete_copy_id(own) => return Ok(CopyProgress::InProgress),
            Some(found) if found == own => return Ok(CopyProgress::Complete),
            Some(found) => bail!(
                "the store {url} belongs to another database ({key} is {found}); choose an empty store"
            ),
            None if task.verify && id.is_some() => bail!("there is no copy in the store {url} yet"),
            None if !task.force && !task.verify => {
                let back = sides.names.reversed_own();
                let mut scan = target.store.scan("*", STEP);
                while let Some(keys) = scan.next().await? {
                    let ours = |key: &&bytes::Bytes| matches!(back.fate(key), Fate::Moves(..));
                    if let Some(key) = keys.iter().find(ours) {
                        bail!(
                            "the store {url} already contains keys of Parlor, such as {}, but not the id of their database; choose an empty store, or overwrite them with --force",
                            escaped(key)
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
        if self.task.dry_run {
            self.process_keys(Pass::Count).await?;
        } else if self.task.verify || self.state == CopyProgress::Complete && !self.task.force {
            self.report.complete_before = self.state == CopyProgress::Complete;
            self.verify().await?;
        } else {
            self.mark_incomplete().await?;
            if self.state == CopyProgress::InProgress {
                self.extra(true).await?;
            }
            self.process_keys(Pass::Copy).await?;
            self.verify().await?;
            if self.report.different == 0 {
                self.complete().await?;
            }
        }
        self.sides.close().await;
        Ok(self.report)
    }

    fn target(&self) -> anyhow::Result<&MigrationStore> {
        self.sides.target.as_ref().context("the target is not open")
    }

    async fn mark_incomplete(&self) -> anyhow::Result<()> {
        let mark = incomplete_copy_id(self.id.as_deref().unwrap_or_default());
        let key = self.sides.names.to.database();
        let set = redis::cmd("SET").arg(&key).arg(mark).take();
        Ok(self.target()?.ask(&set).await?)
    }

    async fn complete(&self) -> anyhow::Result<()> {
        let (names, target) = (&self.sides.names, self.target()?);
        let epoch = redis::cmd("HGET")
            .arg(names.from.epoch())
            .arg("epoch")
            .take();
        let epoch: Option<u64> = self.sides.source.ask(&epoch).await?;
        if epoch.is_some_and(|epoch| epoch > *target.store.epoch().borrow()) {
            let set = redis::cmd("HSET")
                .arg(names.to.epoch())
                .arg("epoch")
                .arg(epoch)
                .take();
            target.ask::<()>(&set).await?;
        }
        target.store.raise_epoch().await?;
        let key = names.to.database();
        let last = match &self.id {
            Some(id) => redis::cmd("SET").arg(&key).arg(id).take(),
            None => redis::cmd("DEL").arg(&key).take(),
        };
        Ok(target.ask(&last).await?)
    }

    async fn verify(&mut self) -> anyhow::Result<()> {
        self.process_keys(Pass::Verify).await?;
        self.extra(false).await
    }

    /// Processes all keys of the source once.
    async fn process_keys(&mut self, pass: Pass) -> anyhow::Result<()> {
        let total = store_pair::key_count(&self.sides.source).await;
        let (label, pace) = match pass {
            Pass::Copy => ("store", self.task.max_per_second()),
            Pass::Count => ("store, counting", 0),
            Pass::Verify => ("store, verifying", 0),
        };
        let step = match pace {
            0 => STEP,
            pace => usize::try_from(pace).map_or(STEP, |pace| pace.min(STEP)),
        };
        let mut progress = MigrationProgress::new(label, "keys", total, pace);
        let mut scan = self.sides.source.store.scan("*", step);
        let mut seen = HashSet::new();
        while let Some(keys) = scan.next().await? {
            let keys = keys.iter().filter(|key| is_first_time(&mut seen, key));
            let keys: Vec<&[u8]> = keys.map(AsRef::as_ref).collect();
            let moves = self.classify_keys(&keys, pass);
            self.process_batch(&moves, pass).await?;
            progress.add(keys.len() as u64);
            progress.rest().await;
        }
        progress.end();
        Ok(())
    }

    /// The keys to copy, with their names and capabilities. The other keys are counted.
    fn classify_keys<'a>(&mut self, keys: &[&'a [u8]], pass: Pass) -> Vec<KeyToCopy<'a>> {
        // A verification after a copy must not count the keys again.
        let first = pass != Pass::Verify || self.task.verify || self.report.complete_before;
        let mut moves = Vec::new();
        for key in keys {
            match self.sides.names.fate(key) {
                Fate::Moves(name, part) => moves.push(KeyToCopy { key, name, part }),
                Fate::Skip if first => self.report.left += 1,
                Fate::Undeclared if first => self.report.undeclared += 1,
                Fate::Skip | Fate::Undeclared => {}
            }
        }
        if first {
            for moving in &moves {
                self.report.part(moving.part).found += 1;
            }
        }
        moves
    }

    async fn process_batch(&mut self, moves: &[KeyToCopy<'_>], pass: Pass) -> anyhow::Result<()> {
        if pass == Pass::Count {
            for moving in moves {
                self.report.part(moving.part).copied += 1;
            }
            return Ok(());
        }
        let (source, target) = (&self.sides.source, self.target()?);
        let all = stream::iter(moves).map(async |moving| {
            let seen = match pass {
                Pass::Copy => copy(source, target, moving).await,
                _ => compare(source, target, moving).await,
            };
            let seen = seen.with_context(|| escaped(moving.key))?;
            anyhow::Ok((moving, seen))
        });
        let all: Vec<_> = all.buffer_unordered(AT_ONCE).try_collect().await?;
        for (moving, seen) in all {
            let part = self.report.part(moving.part);
            match (pass, seen) {
                (Pass::Copy, Seen::Same) => part.already += 1,
                (Pass::Copy, Seen::Different(_)) => part.copied += 1,
                (_, Seen::Same) => part.verified += 1,
                (_, Seen::Different(what)) => self.report.differs(what),
                (_, Seen::Gone) => {}
            }
        }
        Ok(())
    }

    /// Removes keys of the target that the source does not have, or reports them as differences.
    async fn extra(&mut self, remove: bool) -> anyhow::Result<()> {
        let (source, target) = (self.sides.source.clone(), self.target()?.clone());
        let back = self.sides.names.reversed_own();
        let exists = |key: &[u8]| redis::cmd("EXISTS").arg(key).take();
        let mut scan = target.store.scan("*", STEP);
        while let Some(keys) = scan.next().await? {
            let extra = stream::iter(&keys).map(async |key| -> RedisResult<_> {
                let Fate::Moves(name, _) = back.fate(key) else {
                    return Ok(None);
                };
                let extra = !source.ask::<bool>(&exists(&name)).await?
                    && target.ask::<bool>(&exists(key)).await?;
                Ok(extra.then_some(key))
            });
            let extra: Vec<_> = extra.buffer_unordered(AT_ONCE).try_collect().await?;
            for key in extra.into_iter().flatten() {
                if remove {
                    target.ask::<()>(redis::cmd("DEL").arg(&key[..])).await?;
                } else {
                    self.report
                        .differs(format!("{} is not in the source", escaped(key)));
                }
            }
        }
        Ok(())
    }
}

/// One pass over the keys of the source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Count,
    Copy,
    Verify,
}

/// True if the key was not seen before. A 64-bit hash per key is enough to recognize it.
fn is_first_time(seen: &mut HashSet<u64>, key: &[u8]) -> bool {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    seen.insert(hasher.finish())
}
