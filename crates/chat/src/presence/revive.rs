//! After a restart of the embedded store.
//!
//! Always true: the embedded store does not keep beats on disk, so after a restart its deadlines are those of some earlier
//! moment. Nobody is called gone for that: whoever was there has one lifetime to show up again, or, held by the process
//! that ended, the time until its devices are reaped.

use parlor_store::StoreKind;
use redis::pipe;

use super::Presence;
use super::step::{PresenceScriptArgs, query_each};
use crate::error::Result;
use crate::ids::{DeadlineShard, UserId};
use crate::ticking::log_failure;

/// Users in one pipeline.
const USERS_PER_PAGE: usize = 1_000;

impl Presence {
    /// Gives the devices of the last run their time. To be called once, before [`start`](Self::start) and before anything
    /// is asked. Does nothing on a server, which keeps what it is told. How many users there are.
    pub async fn extend_deadlines_after_restart(&self) -> Result<usize> {
        let mut revived = 0;
        if self.ctx.store().kind() != StoreKind::Embedded {
            return Ok(revived);
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
            revived += users.len();
        }
        Ok(revived)
    }

    async fn extend_deadlines(&self, users: &[UserId]) -> Result<()> {
        let steps = PresenceScriptArgs::new(&self.ctx);
        let mut pipe = pipe();
        for user in users {
            pipe.add_command(steps.call(|it| &it.extend_deadlines, user).cmd());
        }
        // Not kept: after another restart they are given as much again.
        let store = self.ctx.store().idempotent().with_volatile_updates();
        for reply in query_each::<u8>(store, &mut pipe).await? {
            log_failure("extend the deadlines of a user", &reply);
        }
        Ok(())
    }
}
