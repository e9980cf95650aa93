//! Extends the deadlines after a restart of the embedded store.
//!
//! Invariant: a restart of the embedded store makes no user offline. The embedded store does not write heartbeats to
//! disk, so after a restart its deadlines are too early. Each device gets another `ttl.presence`; a device of the ended
//! process is reaped unless it reconnects.

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
    /// Extends the deadlines of the devices of the last run. Must run once, before [`start`](Self::start) and before any
    /// read. Does nothing on a Redis server, which keeps its writes.
    pub async fn extend_deadlines_after_restart(&self) -> Result<()> {
        if self.ctx.store().kind() != StoreKind::Embedded {
            return Ok(());
        }
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
