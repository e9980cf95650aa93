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
/// Maximum number of users in one pipeline.
const MAX_USERS_PER_PIPELINE: usize = 500;
/// Time for which a claimed user is left to the claiming node.
const DUE_CLAIM_DURATION: Duration = Duration::from_secs(5);
/// Maximum number of rounds per sweep; the remaining users are due in the next sweep.
const MAX_ROUNDS: usize = 50;

/// Devices that the expire script removes.
pub(super) enum ExpireScope<'a> {
    /// Devices whose deadline has passed.
    Overdue,
    /// Also the devices of a dead node.
    DeadNode(&'a DeadNodeFilter<'a>),
    /// Only connections that this node has lost, after their grace period. No other device is judged.
    LostOn(&'a NodeId),
}

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
    /// users. Until this node may expire others, it removes the connections that it has lost itself. The background task
    /// calls this every second.
    pub async fn sweep(&self) -> Result<usize> {
        if !self.local_node.may_expire_others() {
            return self.expire_own_lost_connections().await;
        }
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

    /// Removes the connections that this node has lost, after their grace period. A node that has just started need not
    /// wait for the leases of others for this. After a break of its own lease, the user may be connected to another node
    /// that has not registered the device again yet, so the lease must have been held for a grace period.
    async fn expire_own_lost_connections(&self) -> Result<usize> {
        if !self.local_node.is_lease_stable() {
            return Ok(0);
        }
        let now = self.ctx.now();
        let users = self.devices.lock().take_ended_grace_periods(now);
        let scope = ExpireScope::LostOn(self.local_node.id());
        for page in users.chunks(MAX_USERS_PER_PIPELINE) {
            let snapshots = self.expire_devices(page, &scope).await?;
            let mut cleanup = pipe();
            for (user, snapshot) in page.iter().zip(snapshots) {
                if let Some(snapshot) = snapshot {
                    let lower = self.lower_deadline_cmd(user, snapshot.latest_deadline);
                    cleanup.add_command(lower).ignore();
                }
            }
            cleanup
                .exec_async(&mut self.ctx.store().idempotent())
                .await?;
        }
        Ok(users.len())
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
        let mut snapshots = self
            .expire_devices(&users, &ExpireScope::Overdue)
            .await?
            .into_iter();
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

    /// Removes devices of users in one pipeline. `None` for a user whose script call failed.
    pub(super) async fn expire_devices(
        &self,
        users: &[UserId],
        scope: &ExpireScope<'_>,
    ) -> Result<Vec<Option<PresenceSnapshot>>> {
        let args = PresenceScriptArgs::new(&self.ctx);
        let mut pipe = pipe();
        for user in users {
            let call = args.call(|it| &it.expire, user);
            let call = match scope {
                ExpireScope::Overdue => call.arg("").arg("").arg(0).arg(""),
                ExpireScope::DeadNode(dead) => call
                    .arg(dead.node)
                    .arg(dead.live_boot_id)
                    .arg(dead.latest_deadline)
                    .arg(""),
                ExpireScope::LostOn(node) => call.arg("").arg("").arg(0).arg(*node),
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
