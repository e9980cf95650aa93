//! Ending the devices of nodes that died, and of earlier starts of this one.
//!
//! Always true: a node that comes back while its devices are ended keeps the rest of them.

use std::sync::atomic::Ordering;

use redis::pipe;

use super::Presence;
use crate::error::Result;
use crate::ids::{NodeId, UserId};

/// Users of a dead node in one pipeline.
const PAGE: usize = 500;

impl Presence {
    /// Ends the devices of dead nodes that nobody else has taken, and once those of earlier starts of this node. To be
    /// called once a second. How many users were looked at.
    pub async fn reap(&self) -> Result<usize> {
        let mut looked = self.reap_past().await?;
        while let Some(mut dead) = self.nodes.take_dead().await? {
            let mut cursor = 0;
            loop {
                let (next, users) = self.page(&dead.id, cursor).await?;
                self.reap_page(&dead.id, "", &users).await?;
                looked += users.len();
                cursor = next;
                if cursor == 0 {
                    self.nodes.forget(&dead).await?;
                    break;
                }
                if self.nodes.lives(&dead.id).await? || !self.nodes.keep(&mut dead).await? {
                    break;
                }
            }
        }
        Ok(looked)
    }

    /// The devices of earlier starts have the grace time to come back, as those of any dead node.
    async fn reap_past(&self) -> Result<usize> {
        let started = *self.started.lock();
        let over =
            started.is_some_and(|started| started.plus(self.nodes.grace()) <= self.ctx.now());
        if !over || self.past_ended.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let (mut cursor, mut looked) = (0, 0);
        loop {
            let (next, users) = self.page(self.nodes.id(), cursor).await?;
            self.reap_page(self.nodes.id(), self.nodes.epoch(), &users)
                .await?;
            looked += users.len();
            cursor = next;
            if cursor == 0 {
                self.past_ended.store(true, Ordering::Relaxed);
                return Ok(looked);
            }
        }
    }

    async fn page(&self, node: &NodeId, cursor: u64) -> Result<(u64, Vec<UserId>)> {
        let mut scan = redis::cmd("SSCAN");
        scan.arg(self.ctx.keys().node_users(node))
            .arg(cursor)
            .arg("COUNT")
            .arg(PAGE);
        Ok(scan.query_async(&mut self.ctx.store().clone()).await?)
    }

    async fn reap_page(&self, node: &NodeId, alive: &str, users: &[UserId]) -> Result<()> {
        if users.is_empty() {
            return Ok(());
        }
        let settled = self.lapse(users, Some((node, alive))).await?;
        let set = self.ctx.keys().node_users(node);
        let ours = |user: &UserId| node == self.nodes.id() && self.local.lock().has(user);
        let mut after = pipe();
        let mut removed = Vec::new();
        for (user, settled) in users.iter().zip(&settled) {
            after.add_command(self.sooner(user, settled.until)).ignore();
            if !ours(user) {
                after.cmd("SREM").arg(&set).arg(user).ignore();
                removed.push(user);
            }
        }
        let mut store = self.ctx.store().repeatable();
        after.exec_async(&mut store).await?;
        // As after a goodbye: who connected here meanwhile is added again.
        for user in removed.into_iter().filter(|user| ours(user)) {
            let mut again = redis::cmd("SADD");
            again.arg(&set).arg(user).exec_async(&mut store).await?;
        }
        Ok(())
    }
}
