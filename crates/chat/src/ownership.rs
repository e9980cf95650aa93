//! Which database the store was filled from: its counts and caches are about those rows and no others.
//!
//! Always true: a store says whose it is as long as somebody uses it. One that came back without its data is claimed again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::context::ChatContext;
use crate::database::{Database, copy};
use crate::error::{Error, Result};
use crate::ticking::{BackgroundTask, BackgroundTasks};

/// How often is looked whether the store may have lost its data.
const EPOCH_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// What a node does to keep its store and its database together.
pub(crate) struct StoreBinding {
    ctx: ChatContext,
    database: Database,
    /// The epoch in which the store was last asked whose it is.
    verified_epoch: AtomicU64,
}

impl StoreBinding {
    pub(crate) fn new(ctx: ChatContext, database: Database) -> Self {
        Self {
            ctx,
            database,
            verified_epoch: AtomicU64::new(0),
        }
    }

    /// Starts the background work.
    pub(crate) fn tick(self: &Arc<Self>) -> BackgroundTasks {
        let work = |it: Arc<Self>| async move { it.verify_after_epoch_change().await };
        BackgroundTasks::new(vec![BackgroundTask::spawn_periodic(
            self,
            EPOCH_CHECK_INTERVAL,
            "check which database the store belongs to",
            work,
        )])
    }

    /// Claims the store again if its data may be other than before.
    async fn verify_after_epoch_change(&self) -> Result<()> {
        match self.verified_epoch.load(Ordering::Relaxed) == self.epoch() {
            true => Ok(()),
            false => self.bind_or_verify().await,
        }
    }

    /// Claims a store that belongs to nobody. One that belongs to another database is refused.
    pub(crate) async fn bind_or_verify(&self) -> Result<()> {
        let epoch = self.epoch();
        let key = self.ctx.keys().database();
        let own = self.database.id();
        let mut store = self.ctx.store().idempotent();
        let mut claim = redis::cmd("SET");
        claim.arg(&key).arg(own).arg("NX");
        claim.exec_async(&mut store).await?;
        let found: Option<String> = redis::cmd("GET").arg(&key).query_async(&mut store).await?;
        // Whatever the answer is, it is told once.
        self.verified_epoch.store(epoch, Ordering::Relaxed);
        match found {
            Some(found) if copy::is_incomplete_copy_id(&found) => {
                Err(Error::StoreCopyIncomplete { key, found })
            }
            Some(found) if found != own => Err(Error::StoreOfOtherDatabase { key, found }),
            _ => Ok(()),
        }
    }

    fn epoch(&self) -> u64 {
        *self.ctx.store().epoch().borrow()
    }
}
