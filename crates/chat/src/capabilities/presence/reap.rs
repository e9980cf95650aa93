//! Removes the devices of dead nodes, and of previous runs of this node.
//!
//! Invariant: a node that returns while its devices are being removed keeps the remaining ones.

use redis::pipe;

use super::expire::{DeadNodeFilter, ExpireScope};
use super::{Presence, PreviousRun};
use crate::api::error::Result;
use crate::clock::{Timestamp, duration_millis};
use crate::ids::{NodeId, UserId};
use crate::keys::TtlName;

/// Users per page and pipeline.
const USERS_PER_PAGE: usize = 500;

impl Presence {
    /// Removes the devices of dead nodes that no other node has claimed, and once those of previous runs of this node.
    /// The background task calls this every second.
    pub async fn reap_dead_nodes(&self) -> Result<()> {
        self.reap_previous_run().await?;
        while let Some(mut dead) = self.local_node.claim_dead_node().await? {
            let mut cursor = 0;
            loop {
                let found_dead_at = self.ctx.now();
                if self.local_node.is_alive(&dead.id).await?
                    || !self.local_node.extend_claim(&mut dead).await?
                {
                    break;
                }
                let (next, users) = self.scan_node_users(&dead.id, cursor).await?;
                self.reap_users(&dead.id, "", found_dead_at, &users).await?;
                cursor = next;
                if cursor == 0 {
                    self.local_node.remove_claimed(&dead).await?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Removes the devices of previous runs. Their clients have the grace period to reconnect, as for any dead node.
    async fn reap_previous_run(&self) -> Result<()> {
        let state = *self.previous_run.lock();
        if !matches!(state, PreviousRun::ReapAfter(time) if time <= self.ctx.now()) {
            return Ok(());
        }
        let (own_id, own_boot_id) = (self.local_node.id(), self.local_node.boot_id());
        let mut cursor = 0;
        loop {
            let (next, users) = self.scan_node_users(own_id, cursor).await?;
            let found_dead_at = self.ctx.now();
            self.reap_users(own_id, own_boot_id, found_dead_at, &users)
                .await?;
            cursor = next;
            if cursor == 0 {
                *self.previous_run.lock() = PreviousRun::Reaped;
                return Ok(());
            }
        }
    }

    async fn scan_node_users(&self, node: &NodeId, cursor: u64) -> Result<(u64, Vec<UserId>)> {
        let mut scan = redis::cmd("SSCAN");
        scan.arg(self.ctx.keys().node_presence_users(node))
            .arg(cursor)
            .arg("COUNT")
            .arg(USERS_PER_PAGE);
        Ok(scan.query_async(&mut self.ctx.store().clone()).await?)
    }

    /// Removes the devices of a node that was dead at the time `found_dead_at`. Devices that it registered or refreshed
    /// later than a grace period before that time are kept, because the node has returned.
    async fn reap_users(
        &self,
        node: &NodeId,
        live_boot_id: &str,
        found_dead_at: Timestamp,
        users: &[UserId],
    ) -> Result<()> {
        if users.is_empty() {
            return Ok(());
        }
        let keys = self.ctx.keys();
        let latest = found_dead_at
            .saturating_add(keys.ttl(TtlName::Presence))
            .as_millis();
        let dead = DeadNodeFilter {
            node,
            live_boot_id,
            latest_deadline: latest.saturating_sub(duration_millis(self.local_node.grace_period())),
        };
        let snapshots = self
            .expire_devices(users, &ExpireScope::DeadNode(&dead))
            .await?;
        let set = keys.node_presence_users(node);
        let ours = node == self.local_node.id();
        let mut cleanup = pipe();
        let mut removed = Vec::new();
        for (user, snapshot) in users.iter().zip(snapshots) {
            let Some(snapshot) = snapshot else { continue };
            cleanup
                .add_command(self.lower_deadline_cmd(user, snapshot.latest_deadline))
                .ignore();
            if !ours || !self.devices.lock().has_user(user) {
                removed.push(user);
            }
        }
        if !removed.is_empty() {
            cleanup.cmd("SREM").arg(&set).arg(&removed).ignore();
        }
        let mut store = self.ctx.store().idempotent();
        cleanup.exec_async(&mut store).await?;
        // A user who connected there meanwhile is added again: a node takes its lease before it registers its users.
        if ours {
            removed.retain(|user| self.devices.lock().has_user(user));
        } else if !self.local_node.is_alive(node).await? {
            removed.clear();
        }
        if !removed.is_empty() {
            let mut add_back = redis::cmd("SADD");
            add_back
                .arg(&set)
                .arg(removed)
                .exec_async(&mut store)
                .await?;
        }
        Ok(())
    }
}
