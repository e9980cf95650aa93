//! Claims on nodes that died.
//!
//! Invariant: a claim is a score in the node index that ends by itself, and only its holder can extend it.

use std::time::Duration;

use parlor_store::{LuaScript, script};

use super::LocalNode;
use crate::api::error::Result;
use crate::clock::duration_millis;
use crate::ids::NodeId;

static COMPARE_AND_SET_SCORE: LuaScript = script!("scripts/compare_and_set_score.lua");

/// Duration of a claim without an extension.
const NODE_CLAIM_DURATION: Duration = Duration::from_secs(10);

/// A dead node that this node has claimed.
#[derive(Debug, Clone)]
pub struct ClaimedNode {
    /// Id of the dead node.
    pub id: NodeId,
    /// Score in the node index that marks the claim.
    claim_score: u64,
}

impl LocalNode {
    /// Claims a node whose lease and grace period are over, if there is one that no other node has claimed.
    pub async fn claim_dead_node(&self) -> Result<Option<ClaimedNode>> {
        if !self.may_expire_others() {
            return Ok(None);
        }
        let now = self.ctx.now();
        let keys = self.ctx.keys();
        let over: Vec<(NodeId, u64)> = redis::cmd("ZRANGEBYSCORE")
            .arg(keys.node_index())
            .arg("-inf")
            .arg(
                now.as_millis()
                    .saturating_sub(duration_millis(self.grace_period)),
            )
            .arg("WITHSCORES")
            .query_async(&mut self.ctx.store().clone())
            .await?;
        for (id, claim_score) in over {
            let mut node = ClaimedNode { id, claim_score };
            // The lease key decides; the index may be outdated.
            if node.id != self.id
                && !self.is_alive(&node.id).await?
                && self.extend_claim(&mut node).await?
            {
                return Ok(Some(node));
            }
        }
        Ok(None)
    }

    /// True if the lease of a node exists.
    pub async fn is_alive(&self, node: &NodeId) -> Result<bool> {
        let found: bool = redis::cmd("EXISTS")
            .arg(self.ctx.keys().node_lease(node))
            .query_async(&mut self.ctx.store().clone())
            .await?;
        Ok(found)
    }

    /// True if no other node is alive.
    pub async fn is_last(&self) -> Result<bool> {
        let mut range = redis::cmd("ZRANGE");
        range.arg(self.ctx.keys().node_index()).arg(0).arg(-1);
        let nodes: Vec<NodeId> = range.query_async(&mut self.ctx.store().clone()).await?;
        for node in &nodes {
            if *node != self.id && self.is_alive(node).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Extends a claim. Returns false if the claim was lost or the node has returned.
    pub async fn extend_claim(&self, node: &mut ClaimedNode) -> Result<bool> {
        let until = self
            .ctx
            .now()
            .saturating_add(NODE_CLAIM_DURATION)
            .as_millis();
        let moved = self.compare_and_set_score(node, &until.to_string()).await?;
        node.claim_score = until;
        Ok(moved)
    }

    /// Removes a dead node from the index after its devices have been removed.
    pub async fn remove_claimed(&self, node: &ClaimedNode) -> Result<()> {
        self.compare_and_set_score(node, "").await.map(drop)
    }

    async fn compare_and_set_score(&self, node: &ClaimedNode, score: &str) -> Result<bool> {
        let call = COMPARE_AND_SET_SCORE
            .keys(self.ctx.keys().node_index())
            .arg(&node.id)
            .arg(node.claim_score)
            .arg(score);
        Ok(call.run(self.ctx.store()).await?)
    }
}
