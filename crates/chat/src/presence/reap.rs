//! Ending the devices of nodes that died, and of earlier starts of this one.
//!
//! Always true: a node that comes back while its devices are ended keeps the rest of them.

use std::sync::atomic::Ordering;

use redis::pipe;

use super::Presence;
use super::sweep::Dead;
use crate::context::{Moment, millis};
use crate::error::Result;
use crate::ids::{NodeId, UserId};
use crate::keys::TtlName;

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
                let judged = self.ctx.now();
                if self.nodes.lives(&dead.id).await? || !self.nodes.keep(&mut dead).await? {
                    break;
                }
                let (next, users) = self.page(&dead.id, cursor).await?;
                self.reap_page(&dead.id, "", judged, &users).await?;
                looked += users.len();
                cursor = next;
                if cursor == 0 {
                    self.nodes.forget(&dead).await?;
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
            let judged = self.ctx.now();
            self.reap_page(self.nodes.id(), self.nodes.epoch(), judged, &users)
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

    /// Ends the devices of a node that was dead at the moment `judged`: whatever it has registered or beaten for less than
    /// the grace time before that is there again.
    async fn reap_page(
        &self,
        node: &NodeId,
        alive: &str,
        judged: Moment,
        users: &[UserId],
    ) -> Result<()> {
        if users.is_empty() {
            return Ok(());
        }
        let keys = self.ctx.keys();
        let latest = judged.plus(keys.ttl(TtlName::Presence)).ms();
        let dead = Dead {
            node,
            alive,
            latest: latest.saturating_sub(millis(self.nodes.grace())),
        };
        let settled = self.lapse(users, Some(&dead)).await?;
        let set = keys.node_users(node);
        let ours = node == self.nodes.id();
        let mut after = pipe();
        let mut removed = Vec::new();
        for (user, settled) in users.iter().zip(settled) {
            let Some(settled) = settled else { continue };
            after.add_command(self.sooner(user, settled.until)).ignore();
            if !ours || !self.local.lock().has(user) {
                removed.push(user);
            }
        }
        if !removed.is_empty() {
            after.cmd("SREM").arg(&set).arg(&removed).ignore();
        }
        let mut store = self.ctx.store().repeatable();
        after.exec_async(&mut store).await?;
        // Who has come there meanwhile is added again: a node takes its lease before it brings its users back.
        if ours {
            removed.retain(|user| self.local.lock().has(user));
        } else if !self.nodes.lives(node).await? {
            removed.clear();
        }
        if !removed.is_empty() {
            let mut again = redis::cmd("SADD");
            again.arg(&set).arg(removed).exec_async(&mut store).await?;
        }
        Ok(())
    }
}
