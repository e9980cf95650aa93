//! Prepares presence after a restart of the embedded store.
//!
//! Invariants:
//! 1. A restart of the embedded store makes no user offline. Heartbeats are not written to disk, so after a restart the
//!    deadlines are too early. Each device gets another `ttl.presence`; a device of the ended process is reaped unless it
//!    reconnects.
//! 2. No version is lower after a restart than any that a client has seen before it.

use parlor_store::StoreKind;
use redis::pipe;

use super::Presence;
use super::script_call::{PresenceScriptArgs, query_each};
use crate::api::error::Result;
use crate::background::log_failure;
use crate::ids::{DeadlineShard, UserId};

/// Users per page and pipeline.
const USERS_PER_PAGE: usize = 1_000;

impl Presence {
    /// Extends the deadlines of the devices of the last run, and after an unclean start raises all versions. Must run once, before [`start`](Self::start) and before any
    /// read. Does nothing on a Redis server, which keeps its writes.
    pub async fn extend_deadlines_after_restart(&self) -> Result<()> {
        if self.ctx.store().kind() != StoreKind::Embedded {
            return Ok(());
        }
        self.raise_versions_after_unclean_start().await?;
        for shard in DeadlineShard::all() {
            let mut range = redis::cmd("ZRANGE");
            range
                .arg(self.ctx.keys().presence_deadlines(shard))
                .arg(0)
                .arg(-1);
            let users: Vec<UserId> = range.query_async(&mut self.ctx.store().clone()).await?;
            for page in users.chunks(USERS_PER_PAGE) {
                self.extend_deadlines(page).await?;
            }
        }
        Ok(())
    }

    /// After an unclean start the store may have lost versions that clients have seen. The time of that start is stored
    /// as the minimum of every version, also for users whose state was lost.
    async fn raise_versions_after_unclean_start(&self) -> Result<()> {
        let mut store = self.ctx.store().clone();
        if !store.previous_run_was_clean() {
            let mut set = redis::cmd("SET");
            set.arg(self.ctx.keys().version_floor())
                .arg(self.ctx.now().as_millis());
            set.exec_async(&mut store).await?;
            store.wait_until_durable().await?;
        }
        Ok(())
    }

    /// Loads the minimum of every version.
    pub(super) async fn load_version_floor(&self) -> Result<()> {
        if self.ctx.store().kind() == StoreKind::Embedded {
            let mut get = redis::cmd("GET");
            get.arg(self.ctx.keys().version_floor());
            let floor: Option<u64> = get.query_async(&mut self.ctx.store().clone()).await?;
            self.reader.raise_version_floor(floor.unwrap_or(0));
        }
        Ok(())
    }

    async fn extend_deadlines(&self, users: &[UserId]) -> Result<()> {
        let args = PresenceScriptArgs::new(&self.ctx);
        let mut pipe = pipe();
        for user in users {
            pipe.add_command(args.call(|it| &it.extend_deadlines, user).cmd());
        }
        // Volatile: another restart extends the deadlines again.
        let store = self.ctx.store().idempotent().with_volatile_updates();
        for reply in query_each::<u8>(store, &mut pipe).await? {
            log_failure("extend the deadlines of a user", &reply);
        }
        Ok(())
    }
}
