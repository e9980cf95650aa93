//! Checks that this server understands the store, and that store and database belong together, because counts and caches
//! in the store describe the rows of one database.
//!
//! Invariants:
//! 1. A store that is in use contains the id of its database, and the number of the newest key schema of its servers. A
//!    store that has lost its data gets both again.
//! 2. A change of keys that servers of the previous version would misread increments [`KEY_SCHEMA`]. Their next start
//!    fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parlor_store::{LuaScript, script};

use crate::api::error::{Error, Result};
use crate::background::{BackgroundTask, BackgroundTasks};
use crate::context::ChatContext;
use crate::database::{Database, copy};

/// Interval of the check whether the store epoch has changed.
const EPOCH_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Number of the key schema of this program.
const KEY_SCHEMA: u64 = 1;

static RAISE_SCHEMA: LuaScript = script!("scripts/raise_schema.lua");

/// Keeps the store bound to the database.
pub(crate) struct StoreBinding {
    ctx: ChatContext,
    database: Database,
    /// Store epoch of the last check.
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

    /// Starts the background task.
    pub(crate) fn start_background_tasks(self: &Arc<Self>) -> BackgroundTasks {
        let work = |it: Arc<Self>| async move { it.verify_after_epoch_change().await };
        BackgroundTasks::new(vec![BackgroundTask::spawn_periodic(
            self,
            EPOCH_CHECK_INTERVAL,
            "check which database the store belongs to",
            work,
        )])
    }

    /// Repeats the check if the store epoch has changed, because the store may then contain other data.
    async fn verify_after_epoch_change(&self) -> Result<()> {
        match self.verified_epoch.load(Ordering::Relaxed) == self.ctx.store_epoch() {
            true => Ok(()),
            false => self.bind_or_verify().await,
        }
    }

    /// Writes the database id into the store if there is none. Fails if the store contains another id.
    pub(crate) async fn bind_or_verify(&self) -> Result<()> {
        let epoch = self.ctx.store_epoch();
        self.check_key_schema().await?;
        let key = self.ctx.keys().database_id();
        let own = self.database.id();
        let mut store = self.ctx.store().idempotent();
        let mut claim = redis::cmd("SET");
        claim.arg(&key).arg(own).arg("NX");
        claim.exec_async(&mut store).await?;
        let found: Option<String> = redis::cmd("GET").arg(&key).query_async(&mut store).await?;
        // Also after a mismatch, so that the background task logs it only once per epoch.
        self.verified_epoch.store(epoch, Ordering::Relaxed);
        match found {
            Some(found) if copy::is_incomplete_copy_id(&found) => {
                Err(Error::StoreCopyIncomplete { key, found })
            }
            Some(found) if found != own => Err(Error::StoreOfOtherDatabase { key, found }),
            _ => Ok(()),
        }
    }

    /// Writes the number of the key schema into the store. Fails if a newer version has written a higher one.
    async fn check_key_schema(&self) -> Result<()> {
        let key = self.ctx.keys().schema();
        let call = RAISE_SCHEMA
            .keys(std::slice::from_ref(&key))
            .arg(KEY_SCHEMA);
        let found: u64 = call.run(&self.ctx.store().idempotent()).await?;
        if found > KEY_SCHEMA {
            let known = KEY_SCHEMA;
            return Err(Error::StoreOfNewerVersion { key, found, known });
        }
        Ok(())
    }
}
