//! Expires devices whose deadline has passed.
//!
//! Invariant: a sweep neither moves nor removes an index entry that was changed after the sweep had claimed it.

use std::time::Duration;

use parlor_store::{LuaScript, script};
use redis::pipe;

use super::Presence;
use super::script_call::{PresenceScriptArgs, PresenceSnapshot, query_each};
use crate::api::error::Result;
use crate::background::log_failure;
use crate::clock::Timestamp;
use crate::ids::{DeadlineShard, NodeId, UserId};

static CLAIM_DUE_USERS: LuaScript = script!("scripts/claim_due_users.lua");
static MARK_CHECKED: LuaScript = script!("scripts/mark_checked.lua");

/// Maximum number of users that one round claims per shard.
const MAX_CLAIMED_PER_SHARD: usize = 100;
/// Time for which a claimed user is left to the claiming node.
const DUE_CLAIM_DURATION: Duration = Duration::from_secs(5);
/// Maximum number of rounds per sweep; the remaining users are due in the next sweep.
const MAX_ROUNDS: usize = 50;

/// Selects the devices of a dead node that are removed.
pub(super) struct DeadNodeFilter<'a> {
    pub(super) node: &'a NodeId,
    /// Boot id of the node that is alive, or `''`.
    pub(super) live_boot_id: &'a str,
    /// Latest deadline that a device from before the node's death can have.
    pub(super) latest_deadline: u64,
}

impl Presence {
    /// Checks the users whose deadline has passed and removes their expired devices. Returns the number of checked
    /// users. Does nothing until this node may expire others. The background task calls this every second.
    pub async fn sweep(&self) -> Result<usize> {
        let mut checked = 0;
        for _ in 0..MAX_ROUNDS {
            if !self.local_node.may_expire_others() {
                break;
            }
            let shards = self.due_shards().await?;
            if shards.is_empty() {
                break;
            }
            checked += self.sweep_round(&shards).await?;
        }
        Ok(checked)
    }

    /// Shards of the deadline index that have a due entry; usually few.
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
        let claim_score = claim_score(now);
        // Volatile: only the members of the index matter after a restart. An entry that is too early costs one check.
        let mut store = self.ctx.store().with_volatile_updates();
        let mut due = pipe();
        for shard in shards {
            let call = CLAIM_DUE_USERS.keys(self.ctx.keys().presence_deadlines(*shard));
            due.add_command(
                call.arg(now.as_millis())
                    .arg(&claim_score)
                    .arg(MAX_CLAIMED_PER_SHARD)
                    .cmd(),
            );
        }
        let claimed: Vec<Vec<UserId>> = due.query_async(&mut store).await?;
        let users: Vec<UserId> = claimed.iter().flatten().cloned().collect();
        if users.is_empty() {
            return Ok(0);
        }
        let mut snapshots = self.expire_devices(&users, None).await?.into_iter();
        let mut mark = pipe();
        for (shard, users) in shards.iter().zip(&claimed) {
            if !users.is_empty() {
                let deadlines = snapshots.by_ref().take(users.len());
                let index = self.ctx.keys().presence_deadlines(*shard);
                let mut call = MARK_CHECKED.keys(index).arg(&claim_score);
                for (user, snapshot) in users.iter().zip(deadlines) {
                    if let Some(snapshot) = snapshot {
                        call = call.arg(user).arg(snapshot.latest_deadline);
                    }
                }
                mark.add_command(call.cmd()).ignore();
            }
        }
        mark.exec_async(&mut store).await?;
        Ok(users.len())
    }

    /// Removes the expired devices of users, and the devices of a dead node, in one pipeline. `None` for a user whose
    /// script call failed.
    pub(super) async fn expire_devices(
        &self,
        users: &[UserId],
        dead: Option<&DeadNodeFilter<'_>>,
    ) -> Result<Vec<Option<PresenceSnapshot>>> {
        let args = PresenceScriptArgs::new(&self.ctx);
        let mut pipe = pipe();
        for user in users {
            let call = args.call(|it| &it.expire, user);
            let call = match dead {
                Some(dead) => call
                    .arg(dead.node)
                    .arg(dead.live_boot_id)
                    .arg(dead.latest_deadline),
                None => call.arg("").arg("").arg(0),
            };
            pipe.add_command(call.cmd());
        }
        let snapshots: Vec<Result<PresenceSnapshot>> =
            query_each(self.ctx.store().idempotent(), &mut pipe).await?;
        let snapshots = snapshots.into_iter().map(|it| {
            log_failure("expire the devices of a user", &it);
            it.ok()
        });
        Ok(snapshots.collect())
    }
}

/// Score of entries that are claimed now: between two milliseconds, so that no other writer uses the same score.
fn claim_score(now: Timestamp) -> String {
    format!("{}.5", now.saturating_add(DUE_CLAIM_DURATION).as_millis())
}
