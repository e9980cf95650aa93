//! Nodes: the lease of this process, and its claims on nodes that died.
//!
//! Invariants:
//! 1. A node is alive while its lease key exists. The key holds a boot id that is random per process start, so a
//!    restarted process with the same node id does not continue the old lease.
//! 2. A node declares others dead only after it has renewed its own lease without a break for lease + grace period.
//!    After a store outage all leases may have ended; this wait gives every node time to take its lease again.
//! 3. Of the nodes that find the same dead node, one claims it and removes its devices. If that node dies too, its
//!    claim ends and another node claims it.

pub mod keys;

use std::time::Duration;

use parking_lot::Mutex;
use parlor_store::{LuaScript, script};
use redis::pipe;
use tokio::sync::watch;

use crate::api::error::Result;
use crate::clock::{Timestamp, duration_millis};
use crate::context::ChatContext;
use crate::ids::NodeId;
use crate::keys::TtlName;

static RENEW_LEASE: LuaScript = script!("scripts/renew_lease.lua");
static COMPARE_AND_SET_SCORE: LuaScript = script!("scripts/compare_and_set_score.lua");
static RELEASE_LEASE: LuaScript = script!("scripts/release_lease.lua");

/// Duration of a claim without an extension.
const NODE_CLAIM_DURATION: Duration = Duration::from_secs(10);

/// This process as a node.
#[derive(Debug)]
pub struct LocalNode {
    ctx: ChatContext,
    id: NodeId,
    /// Random per process start.
    boot_id: String,
    grace_period: Duration,
    lease_state: Mutex<LeaseState>,
    /// Number of dead nodes that this node has claimed.
    claimed: watch::Sender<u64>,
}

/// State of the own lease.
#[derive(Debug, Default)]
struct LeaseState {
    /// Start of the unbroken period. `None` before the first lease, and while another process uses the same node id.
    held_since: Option<Timestamp>,
    /// Last successful renewal.
    last_renewed: Option<Timestamp>,
    /// Store epoch of that period. If a part of a Redis Cluster comes back without the leases of other nodes, the epoch
    /// changes and the period starts again.
    store_epoch: u64,
    /// Boot id of another process with the same node id.
    rival_boot_id: Option<String>,
}

/// Result of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseRenewal {
    /// The lease was held without a break, or the conflict with another process has been reported already.
    Kept,
    /// The lease had expired, or another process has taken it: other nodes may have removed the devices of this node.
    Lost,
}

/// A dead node that this node has claimed.
#[derive(Debug, Clone)]
pub struct ClaimedNode {
    /// Id of the dead node.
    pub id: NodeId,
    /// Score in the node index that marks the claim.
    claim_score: u64,
}

impl LocalNode {
    /// Creates a node that holds no lease yet.
    pub fn new(ctx: ChatContext, id: NodeId, grace_period: Duration) -> Self {
        Self {
            ctx,
            id,
            boot_id: format!("{:016x}", rand::random::<u64>()),
            grace_period,
            lease_state: Mutex::default(),
            claimed: watch::Sender::new(0),
        }
    }

    /// Id of the node.
    pub fn id(&self) -> &NodeId {
        &self.id
    }

    /// Random id of this process start.
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// Time that a lost connection has to reconnect.
    pub fn grace_period(&self) -> Duration {
        self.grace_period
    }

    fn lease_duration(&self) -> Duration {
        self.ctx.keys().ttl(TtlName::NodeLease)
    }

    /// Takes the lease, also from an earlier process with the same node id.
    pub async fn acquire_lease(&self) -> Result<()> {
        let now = self.ctx.now();
        let keys = self.ctx.keys();
        pipe()
            .cmd("SET")
            .arg(keys.node_lease(&self.id))
            .arg(&self.boot_id)
            .arg("PX")
            .arg(duration_millis(self.lease_duration()))
            .ignore()
            .cmd("ZADD")
            .arg(keys.node_index())
            .arg(now.saturating_add(self.lease_duration()).as_millis())
            .arg(&self.id)
            .ignore()
            .exec_async(&mut self.ctx.store().idempotent())
            .await?;
        *self.lease_state.lock() = self.starting_at(now);
        Ok(())
    }

    fn starting_at(&self, now: Timestamp) -> LeaseState {
        LeaseState {
            held_since: Some(now),
            last_renewed: Some(now),
            store_epoch: self.ctx.store_epoch(),
            rival_boot_id: None,
        }
    }

    /// Renews the lease. Must be called several times per lease duration.
    pub async fn renew_lease(&self) -> Result<LeaseRenewal> {
        let now = self.ctx.now();
        let keys = self.ctx.keys();
        let renew = RENEW_LEASE
            .keys(keys.node_lease(&self.id))
            .arg(&self.boot_id)
            .arg(duration_millis(self.lease_duration()));
        let (holder,): (String,) = pipe()
            .add_command(renew.cmd())
            .cmd("ZADD")
            .arg(keys.node_index())
            .arg(now.saturating_add(self.lease_duration()).as_millis())
            .arg(&self.id)
            .ignore()
            .query_async(&mut self.ctx.store().idempotent())
            .await?;
        Ok(self.record_renewal(now, &holder))
    }

    fn record_renewal(&self, now: Timestamp, holder: &str) -> LeaseRenewal {
        let mut lease = self.lease_state.lock();
        match holder {
            "held" => {
                let duration = self.lease_duration();
                let broken = lease
                    .last_renewed
                    .is_none_or(|last| last.saturating_add(duration) < now)
                    || lease.store_epoch != self.ctx.store_epoch();
                let since = lease.held_since.filter(|_| !broken);
                *lease = self.starting_at(now);
                lease.held_since = since.or(lease.held_since);
                // If broken, the lease had expired, and an earlier call has taken it again although its reply was lost.
                if broken {
                    LeaseRenewal::Lost
                } else {
                    LeaseRenewal::Kept
                }
            }
            "free" => {
                *lease = self.starting_at(now);
                LeaseRenewal::Lost
            }
            rival => {
                lease.held_since = None;
                if lease.rival_boot_id.as_deref() == Some(rival) {
                    return LeaseRenewal::Kept;
                }
                tracing::error!(node = %self.id, "another process uses this node id; give each its own server.node");
                lease.rival_boot_id = Some(rival.to_owned());
                LeaseRenewal::Lost
            }
        }
    }

    /// True if this node may expire devices and declare nodes dead: it has held its lease without a break for lease +
    /// grace period.
    pub fn may_expire_others(&self) -> bool {
        self.lease_held_for(self.lease_duration() + self.grace_period)
    }

    /// True if the lease was held for the grace period, so that other nodes had time to return as well.
    pub fn is_lease_stable(&self) -> bool {
        self.lease_held_for(self.grace_period)
    }

    /// True if the lease is held, as far as this node knows.
    pub fn holds_lease(&self) -> bool {
        self.lease_held_for(Duration::ZERO)
    }

    fn lease_held_for(&self, time: Duration) -> bool {
        let now = self.ctx.now();
        let lease = self.lease_state.lock();
        let since = lease
            .held_since
            .is_some_and(|since| since.saturating_add(time) <= now);
        let duration = self.lease_duration();
        since
            && lease.store_epoch == self.ctx.store_epoch()
            && lease
                .last_renewed
                .is_some_and(|last| now < last.saturating_add(duration))
    }

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
                self.claimed.send_modify(|count| *count += 1);
                return Ok(Some(node));
            }
        }
        Ok(None)
    }

    /// Number of dead nodes that this node has claimed; changes with each further claim.
    pub fn claimed_count(&self) -> watch::Receiver<u64> {
        self.claimed.subscribe()
    }

    /// True if the lease of a node exists.
    pub async fn is_alive(&self, node: &NodeId) -> Result<bool> {
        let found: bool = redis::cmd("EXISTS")
            .arg(self.ctx.keys().node_lease(node))
            .query_async(&mut self.ctx.store().clone())
            .await?;
        Ok(found)
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

    /// Gives the lease back and leaves the index, so that no other node has to remove this one. A lease that another
    /// process with the same node id holds stays.
    pub async fn release_lease(&self) -> Result<()> {
        *self.lease_state.lock() = LeaseState::default();
        let keys = self.ctx.keys();
        let mut store = self.ctx.store().idempotent();
        let call = RELEASE_LEASE
            .keys(keys.node_lease(&self.id))
            .arg(&self.boot_id);
        if call.run(&store).await? {
            let mut leave = redis::cmd("ZREM");
            leave.arg(keys.node_index()).arg(&self.id);
            leave.exec_async(&mut store).await?;
        }
        Ok(())
    }
}
