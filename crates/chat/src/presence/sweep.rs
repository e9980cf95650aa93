//! Ending devices whose time is over.
//!
//! Always true: an entry of the index that somebody changed while we looked is theirs; it is neither moved nor removed.

use std::time::Duration;

use parlor_store::{LuaScript, script};
use redis::pipe;

use super::Presence;
use super::step::{PresenceScriptArgs, PresenceSnapshot, query_each};
use crate::context::Timestamp;
use crate::error::Result;
use crate::ids::{DeadlineShard, NodeId, UserId};
use crate::ticking::log_failure;

static CLAIM_DUE_USERS: LuaScript = script!("due.lua");
static MARK_CHECKED: LuaScript = script!("looked.lua");

/// Users taken from one shard at a time.
const MAX_CLAIMED_PER_SHARD: usize = 100;
/// How long a taken user is left to the one who took them.
const DUE_CLAIM_DURATION: Duration = Duration::from_secs(5);
/// Rounds of one sweep; what is left is due in the next.
const MAX_ROUNDS: usize = 50;

/// A node whose devices are over.
pub(super) struct DeadNodeFilter<'a> {
    pub(super) node: &'a NodeId,
    /// The epoch of it that lives, or ''.
    pub(super) live_boot_id: &'a str,
    /// The latest deadline that a device can have from before it died.
    pub(super) latest_deadline: u64,
}

impl Presence {
    /// Looks at the users whose deadline has come, and ends what lapsed. To be called once a second. Does nothing until
    /// this node may judge. How many users were looked at.
    pub async fn sweep(&self) -> Result<usize> {
        let mut looked = 0;
        for _ in 0..MAX_ROUNDS {
            if !self.local_node.may_judge() {
                break;
            }
            let shards = self.due_shards().await?;
            if shards.is_empty() {
                break;
            }
            looked += self.sweep_round(&shards).await?;
        }
        Ok(looked)
    }

    /// The parts of the index that have somebody to be looked at; most often few.
    async fn due_shards(&self) -> Result<Vec<DeadlineShard>> {
        let now = self.ctx.now();
        let mut first = pipe();
        for shard in DeadlineShard::all() {
            first
                .cmd("ZRANGEBYSCORE")
                .arg(self.ctx.keys().presence_deadlines(shard))
                .arg(&["-inf", &now.as_millis().to_string(), "LIMIT", "0", "1"]);
        }
        let mut store = self.ctx.store().clone();
        let first: Vec<Vec<String>> = first.query_async(&mut store).await?;
        let due = DeadlineShard::all().zip(first);
        let due = due.filter_map(|(shard, first)| (!first.is_empty()).then_some(shard));
        Ok(due.collect())
    }

    async fn sweep_round(&self, shards: &[DeadlineShard]) -> Result<usize> {
        let now = self.ctx.now();
        let taken_until = claim_score(now);
        // Of the index it matters who is in it: an entry that is early costs a look.
        let mut store = self.ctx.store().with_volatile_updates();
        let mut due = pipe();
        for shard in shards {
            let call = CLAIM_DUE_USERS.keys(self.ctx.keys().presence_deadlines(*shard));
            due.add_command(
                call.arg(now.as_millis())
                    .arg(&taken_until)
                    .arg(MAX_CLAIMED_PER_SHARD)
                    .cmd(),
            );
        }
        let taken: Vec<Vec<UserId>> = due.query_async(&mut store).await?;
        let users: Vec<UserId> = taken.iter().flatten().cloned().collect();
        if users.is_empty() {
            return Ok(0);
        }
        let mut settled = self.expire_devices(&users, None).await?.into_iter();
        let mut looked = pipe();
        for (shard, users) in shards.iter().zip(&taken) {
            if !users.is_empty() {
                let deadlines = settled.by_ref().take(users.len());
                let index = self.ctx.keys().presence_deadlines(*shard);
                let mut call = MARK_CHECKED.keys(index).arg(&taken_until);
                for (user, settled) in users.iter().zip(deadlines) {
                    if let Some(settled) = settled {
                        call = call.arg(user).arg(settled.latest_deadline);
                    }
                }
                looked.add_command(call.cmd()).ignore();
            }
        }
        looked.exec_async(&mut store).await?;
        Ok(users.len())
    }

    /// Ends the lapsed devices of users, and those of a dead node, in one pipeline. None for a user where that was refused.
    pub(super) async fn expire_devices(
        &self,
        users: &[UserId],
        dead: Option<&DeadNodeFilter<'_>>,
    ) -> Result<Vec<Option<PresenceSnapshot>>> {
        let steps = PresenceScriptArgs::new(&self.ctx);
        let mut pipe = pipe();
        for user in users {
            let call = steps.call(|it| &it.expire, user);
            let call = match dead {
                Some(dead) => call
                    .arg(dead.node)
                    .arg(dead.live_boot_id)
                    .arg(dead.latest_deadline),
                None => call.arg("").arg("").arg(0),
            };
            pipe.add_command(call.cmd());
        }
        let settled: Vec<Result<PresenceSnapshot>> =
            query_each(self.ctx.store().idempotent(), &mut pipe).await?;
        let settled = settled.into_iter().map(|it| {
            log_failure("expire the devices of a user", &it);
            it.ok()
        });
        Ok(settled.collect())
    }
}

/// The score of entries that are taken now: between two milliseconds, so that nobody else writes the same one.
fn claim_score(now: Timestamp) -> String {
    format!("{}.5", now.saturating_add(DUE_CLAIM_DURATION).as_millis())
}
