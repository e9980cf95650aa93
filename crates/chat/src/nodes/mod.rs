//! Nodes: which Parlors run, and what the store knows about itself.
//!
//! Always true:
//! 1. A node is alive while its lease is in the store. The epoch in it is random per start, so a restarted node with the
//!    same id is another one.
//! 2. A node judges others only after it renewed its own lease without a break for lease and grace time: a store that was
//!    away for a while makes nobody look dead.
//! 3. Of the nodes that find one dead, one ends its devices; if that one dies too, another follows.

pub mod keys;

use std::time::Duration;

use parking_lot::Mutex;
use parlor_store::{LuaScript, script};
use redis::pipe;
use tokio::sync::watch;

use crate::context::{ChatContext, Timestamp, duration_millis};
use crate::error::Result;
use crate::ids::NodeId;
use crate::keys::TtlName;

static RENEW_LEASE: LuaScript = script!("renew.lua");
static COMPARE_AND_SET_SCORE: LuaScript = script!("claim.lua");
static RELEASE_LEASE: LuaScript = script!("resign.lua");

/// How long a claimed node is left to its claimer.
const NODE_CLAIM_DURATION: Duration = Duration::from_secs(10);

/// This node among the others.
#[derive(Debug)]
pub struct LocalNode {
    ctx: ChatContext,
    id: NodeId,
    epoch: String,
    grace: Duration,
    held: Mutex<LeaseState>,
    /// How many dead nodes were taken.
    claimed: watch::Sender<u64>,
}

/// What is known of the own lease.
#[derive(Debug, Default)]
struct LeaseState {
    /// Since when it was renewed without a break.
    held_since: Option<Timestamp>,
    /// When it was last renewed.
    last_renewed: Option<Timestamp>,
    /// The epoch of the store all the while: a part of the store that came back without the others' leases makes nobody
    /// look dead either.
    store_epoch: u64,
    /// The epoch of another process with this id.
    rival_boot_id: Option<String>,
}

/// What became of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseRenewal {
    /// It was ours all the time.
    Kept,
    /// It was gone, or another process took it: others may have ended our devices.
    Lost,
}

/// A node whose lease and grace time are over, taken by us.
#[derive(Debug, Clone)]
pub struct ClaimedNode {
    /// Which node.
    pub id: NodeId,
    /// The score in the index that makes it ours.
    claim_score: u64,
}

impl LocalNode {
    /// A node that has not told anybody yet.
    pub fn new(ctx: ChatContext, id: NodeId, grace: Duration) -> Self {
        Self {
            ctx,
            id,
            epoch: format!("{:016x}", rand::random::<u64>()),
            grace,
            held: Mutex::default(),
            claimed: watch::Sender::new(0),
        }
    }

    /// The id of this node.
    pub fn id(&self) -> &NodeId {
        &self.id
    }

    /// The epoch of this start.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// The time that lost connections have to come back.
    pub fn grace_period(&self) -> Duration {
        self.grace
    }

    fn lease_duration(&self) -> Duration {
        self.ctx.keys().ttl(TtlName::NodeLease)
    }

    /// Takes the lease, also from an earlier start with the same id.
    pub async fn register(&self) -> Result<()> {
        let now = self.ctx.now();
        let keys = self.ctx.keys();
        pipe()
            .cmd("SET")
            .arg(keys.node(&self.id))
            .arg(&self.epoch)
            .arg("PX")
            .arg(duration_millis(self.lease_duration()))
            .ignore()
            .cmd("ZADD")
            .arg(keys.nodes())
            .arg(now.saturating_add(self.lease_duration()).as_millis())
            .arg(&self.id)
            .ignore()
            .exec_async(&mut self.ctx.store().idempotent())
            .await?;
        *self.held.lock() = self.starting_at(now);
        Ok(())
    }

    fn starting_at(&self, now: Timestamp) -> LeaseState {
        LeaseState {
            held_since: Some(now),
            last_renewed: Some(now),
            store_epoch: self.store_epoch(),
            rival_boot_id: None,
        }
    }

    fn store_epoch(&self) -> u64 {
        *self.ctx.store().epoch().borrow()
    }

    /// Renews the lease; to be called several times within one.
    pub async fn renew(&self) -> Result<LeaseRenewal> {
        let now = self.ctx.now();
        let keys = self.ctx.keys();
        let renew = RENEW_LEASE
            .keys(keys.node(&self.id))
            .arg(&self.epoch)
            .arg(duration_millis(self.lease_duration()));
        let (holder,): (String,) = pipe()
            .add_command(renew.cmd())
            .cmd("ZADD")
            .arg(keys.nodes())
            .arg(now.saturating_add(self.lease_duration()).as_millis())
            .arg(&self.id)
            .ignore()
            .query_async(&mut self.ctx.store().idempotent())
            .await?;
        Ok(self.record_renewal(now, &holder))
    }

    fn record_renewal(&self, now: Timestamp, holder: &str) -> LeaseRenewal {
        let mut held = self.held.lock();
        match holder {
            "held" => {
                let lease = self.lease_duration();
                let broken = held
                    .last_renewed
                    .is_none_or(|last| last.saturating_add(lease) < now)
                    || held.store_epoch != self.store_epoch();
                let since = held.held_since.filter(|_| !broken);
                *held = self.starting_at(now);
                held.held_since = since.or(held.held_since);
                // Gone meanwhile, and taken by a try of ours whose reply was lost.
                if broken {
                    LeaseRenewal::Lost
                } else {
                    LeaseRenewal::Kept
                }
            }
            "free" => {
                *held = self.starting_at(now);
                LeaseRenewal::Lost
            }
            rival => {
                held.held_since = None;
                if held.rival_boot_id.as_deref() == Some(rival) {
                    return LeaseRenewal::Kept;
                }
                tracing::error!(node = %self.id, "another process uses this node id; give each its own server.node");
                held.rival_boot_id = Some(rival.to_owned());
                LeaseRenewal::Lost
            }
        }
    }

    /// Whether this node knows enough to call others dead and devices lapsed.
    pub fn may_judge(&self) -> bool {
        self.lease_held_for(self.lease_duration() + self.grace)
    }

    /// Whether the lease is held for so long that the other nodes had time to come back, too.
    pub fn is_lease_stable(&self) -> bool {
        self.lease_held_for(self.grace)
    }

    /// Whether the lease is held, as far as this node can know.
    pub fn holds_lease(&self) -> bool {
        self.lease_held_for(Duration::ZERO)
    }

    fn lease_held_for(&self, time: Duration) -> bool {
        let now = self.ctx.now();
        let held = self.held.lock();
        let since = held
            .held_since
            .is_some_and(|since| since.saturating_add(time) <= now);
        let lease = self.lease_duration();
        since
            && held.store_epoch == self.store_epoch()
            && held
                .last_renewed
                .is_some_and(|last| now < last.saturating_add(lease))
    }

    /// Takes a node whose lease and grace time are over, if there is one that nobody else has taken.
    pub async fn claim_dead_node(&self) -> Result<Option<ClaimedNode>> {
        if !self.may_judge() {
            return Ok(None);
        }
        let now = self.ctx.now();
        let keys = self.ctx.keys();
        let over: Vec<(NodeId, u64)> = redis::cmd("ZRANGEBYSCORE")
            .arg(keys.nodes())
            .arg("-inf")
            .arg(now.as_millis().saturating_sub(duration_millis(self.grace)))
            .arg("WITHSCORES")
            .query_async(&mut self.ctx.store().clone())
            .await?;
        for (id, seen) in over {
            let mut node = ClaimedNode {
                id,
                claim_score: seen,
            };
            // The lease decides; the index is only where to look.
            if node.id != self.id && !self.is_alive(&node.id).await? && self.keep(&mut node).await?
            {
                self.claimed.send_modify(|count| *count += 1);
                return Ok(Some(node));
            }
        }
        Ok(None)
    }

    /// How many dead nodes this one has taken, now and from now on.
    pub fn claimed_count(&self) -> watch::Receiver<u64> {
        self.claimed.subscribe()
    }

    /// Whether a node has its lease.
    pub async fn is_alive(&self, node: &NodeId) -> Result<bool> {
        let found: bool = redis::cmd("EXISTS")
            .arg(self.ctx.keys().node(node))
            .query_async(&mut self.ctx.store().clone())
            .await?;
        Ok(found)
    }

    /// Keeps a dead node for some more time. False if it is no longer ours, or has come back.
    pub async fn keep(&self, node: &mut ClaimedNode) -> Result<bool> {
        let until = self
            .ctx
            .now()
            .saturating_add(NODE_CLAIM_DURATION)
            .as_millis();
        let moved = self.compare_and_set_score(node, &until.to_string()).await?;
        node.claim_score = until;
        Ok(moved)
    }

    /// Forgets a dead node whose devices are ended.
    pub async fn remove_claimed(&self, node: &ClaimedNode) -> Result<()> {
        self.compare_and_set_score(node, "").await.map(drop)
    }

    async fn compare_and_set_score(&self, node: &ClaimedNode, score: &str) -> Result<bool> {
        let call = COMPARE_AND_SET_SCORE
            .keys(self.ctx.keys().nodes())
            .arg(&node.id)
            .arg(node.claim_score)
            .arg(score);
        Ok(call.run(self.ctx.store()).await?)
    }

    /// Gives the lease back and leaves the index, so that nobody has to end this node. What another process with this id
    /// has taken stays its own.
    pub async fn release_lease(&self) -> Result<()> {
        *self.held.lock() = LeaseState::default();
        let keys = self.ctx.keys();
        let mut store = self.ctx.store().idempotent();
        let call = RELEASE_LEASE.keys(keys.node(&self.id)).arg(&self.epoch);
        if call.run(&store).await? {
            let mut leave = redis::cmd("ZREM");
            leave.arg(keys.nodes()).arg(&self.id);
            leave.exec_async(&mut store).await?;
        }
        Ok(())
    }
}
