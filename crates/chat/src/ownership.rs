//! Which database the store was filled from: its counts and caches are about those rows and no others.
//!
//! Always true: a store says whose it is as long as somebody uses it. One that came back without its data is claimed again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::context::Context;
use crate::database::{Database, copy};
use crate::error::{Error, Result};
use crate::ticking::{Task, Ticking};

/// How often is looked whether the store may have lost its data.
const TICK: Duration = Duration::from_secs(1);

/// What a node does to keep its store and its database together.
pub(crate) struct Ownership {
    ctx: Context,
    database: Database,
    /// The epoch in which the store was last asked whose it is.
    asked: AtomicU64,
}

impl Ownership {
    pub(crate) fn new(ctx: Context, database: Database) -> Self {
        Self {
            ctx,
            database,
            asked: AtomicU64::new(0),
        }
    }

    /// Starts the background work.
    pub(crate) fn tick(self: &Arc<Self>) -> Ticking {
        let work = |it: Arc<Self>| async move { it.follow().await };
        Ticking::new(vec![Task::each(self, TICK, "claim the store", work)])
    }

    /// Claims the store again if its data may be other than before.
    async fn follow(&self) -> Result<()> {
        match self.asked.load(Ordering::Relaxed) == self.epoch() {
            true => Ok(()),
            false => self.claim().await,
        }
    }

    /// Claims a store that belongs to nobody. One that belongs to another database is refused.
    pub(crate) async fn claim(&self) -> Result<()> {
        let epoch = self.epoch();
        let key = self.ctx.keys().database();
        let own = self.database.id();
        let mut store = self.ctx.store().repeatable();
        let mut claim = redis::cmd("SET");
        claim.arg(&key).arg(own).arg("NX");
        claim.exec_async(&mut store).await?;
        let found: Option<String> = redis::cmd("GET").arg(&key).query_async(&mut store).await?;
        // Whatever the answer is, it is told once.
        self.asked.store(epoch, Ordering::Relaxed);
        match found {
            Some(found) if copy::is_unfinished(&found) => Err(Error::UnfinishedCopy { key, found }),
            Some(found) if found != own => Err(Error::OtherDatabase { key, found }),
            _ => Ok(()),
        }
    }

    fn epoch(&self) -> u64 {
        *self.ctx.store().epoch().borrow()
    }
}
