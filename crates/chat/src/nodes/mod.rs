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
use parlor_store::{Script, script};
use redis::pipe;
use tokio::sync::watch;

use crate::context::{Context, Moment, millis};
use crate::error::Result;
use crate::ids::NodeId;
use crate::keys::TtlName;

static RENEW: Script = script!("renew.lua");
static CLAIM: Script = script!("claim.lua");
static RESIGN: Script = script!("resign.lua");

/// How long a claimed node is left to its claimer.
const CLAIM_TIME: Duration = Duration::from_secs(10);

/// This node among the others.
#[derive(Debug)]
pub struct Nodes {
    ctx: Context,
    id: NodeId,
    epoch: String,
    grace: Duration,
    held: Mutex<Held>,
    /// How many dead nodes were taken.
    claimed: watch::Sender<u64>,
}

/// What is known of the own lease.
#[derive(Debug, Default)]
struct Held {
    /// Since when it was renewed without a break.
    since: Option<Moment>,
    /// When it was last renewed.
    renewed: Option<Moment>,
    /// The epoch of the store all the while: a part of the store that came back without the others' leases makes nobody
    /// look dead either.
    store: u64,
    /// The epoch of another process with this id.
    rival: Option<String>,
}

/// What became of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// It was ours all the time.
    Held,
    /// It was gone, or another process took it: others may have ended our devices.
    Lost,
}

/// A node whose lease and grace time are over, taken by us.
#[derive(Debug, Clone)]
pub struct DeadNode {
    /// Which node.
    pub id: NodeId,
    /// The score in the index that makes it ours.
    score: u64,
}

impl Nodes {
    /// A node that has not told anybody yet.
    pub fn new(ctx: Context, id: NodeId, grace: Duration) -> Self {
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
    pub fn grace(&self) -> Duration {
        self.grace
    }

    fn lease(&self) -> Duration {
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
            .arg(millis(self.lease()))
            .ignore()
            .cmd("ZADD")
            .arg(keys.nodes())
            .arg(now.plus(self.lease()).ms())
            .arg(&self.id)
            .ignore()
            .exec_async(&mut self.ctx.store().repeatable())
            .await?;
        *self.held.lock() = self.held_since(now);
        Ok(())
    }

    fn held_since(&self, now: Moment) -> Held {
        Held {
            since: Some(now),
            renewed: Some(now),
            store: self.store_epoch(),
            rival: None,
        }
    }

    fn store_epoch(&self) -> u64 {
        *self.ctx.store().epoch().borrow()
    }

    /// Renews the lease; to be called several times within one.
    pub async fn renew(&self) -> Result<Renewal> {
        let now = self.ctx.now();
        let keys = self.ctx.keys();
        let renew = RENEW
            .keys(keys.node(&self.id))
            .arg(&self.epoch)
            .arg(millis(self.lease()));
        let (holder,): (String,) = pipe()
            .add_command(renew.cmd())
            .cmd("ZADD")
            .arg(keys.nodes())
            .arg(now.plus(self.lease()).ms())
            .arg(&self.id)
            .ignore()
            .query_async(&mut self.ctx.store().repeatable())
            .await?;
        Ok(self.renewed(now, &holder))
    }

    fn renewed(&self, now: Moment, holder: &str) -> Renewal {
        let mut held = self.held.lock();
        match holder {
            "held" => {
                let lease = self.lease();
                let broken = held.renewed.is_none_or(|last| last.plus(lease) < now)
                    || held.store != self.store_epoch();
                let since = held.since.filter(|_| !broken);
                *held = self.held_since(now);
                held.since = since.or(held.since);
                // Gone meanwhile, and taken by a try of ours whose reply was lost.
                if broken { Renewal::Lost } else { Renewal::Held }
            }
            "free" => {
                *held = self.held_since(now);
                Renewal::Lost
            }
            rival => {
                held.since = None;
                if held.rival.as_deref() == Some(rival) {
                    return Renewal::Held;
                }
                tracing::error!(node = %self.id, "another process uses this node id; give each its own server.node");
                held.rival = Some(rival.to_owned());
                Renewal::Lost
            }
        }
    }

    /// Whether this node knows enough to call others dead and devices lapsed.
    pub fn may_judge(&self) -> bool {
        self.is_held_for(self.lease() + self.grace)
    }

    /// Whether the lease is held for so long that the other nodes had time to come back, too.
    pub fn is_steady(&self) -> bool {
        self.is_held_for(self.grace)
    }

    /// Whether the lease is held, as far as this node can know.
    pub fn holds(&self) -> bool {
        self.is_held_for(Duration::ZERO)
    }

    fn is_held_for(&self, time: Duration) -> bool {
        let now = self.ctx.now();
        let held = self.held.lock();
        let since = held.since.is_some_and(|since| since.plus(time) <= now);
        let lease = self.lease();
        since
            && held.store == self.store_epoch()
            && held.renewed.is_some_and(|last| now < last.plus(lease))
    }

    /// Takes a node whose lease and grace time are over, if there is one that nobody else has taken.
    pub async fn take_dead(&self) -> Result<Option<DeadNode>> {
        if !self.may_judge() {
            return Ok(None);
        }
        let now = self.ctx.now();
        let keys = self.ctx.keys();
        let over: Vec<(NodeId, u64)> = redis::cmd("ZRANGEBYSCORE")
            .arg(keys.nodes())
            .arg("-inf")
            .arg(now.ms().saturating_sub(millis(self.grace)))
            .arg("WITHSCORES")
            .query_async(&mut self.ctx.store().clone())
            .await?;
        for (id, seen) in over {
            let mut node = DeadNode { id, score: seen };
            // The lease decides; the index is only where to look.
            if node.id != self.id && !self.lives(&node.id).await? && self.keep(&mut node).await? {
                self.claimed.send_modify(|count| *count += 1);
                return Ok(Some(node));
            }
        }
        Ok(None)
    }

    /// How many dead nodes this one has taken, now and from now on.
    pub fn claimed(&self) -> watch::Receiver<u64> {
        self.claimed.subscribe()
    }

    /// Whether a node has its lease.
    pub async fn lives(&self, node: &NodeId) -> Result<bool> {
        let found: bool = redis::cmd("EXISTS")
            .arg(self.ctx.keys().node(node))
            .query_async(&mut self.ctx.store().clone())
            .await?;
        Ok(found)
    }

    /// Keeps a dead node for some more time. False if it is no longer ours, or has come back.
    pub async fn keep(&self, node: &mut DeadNode) -> Result<bool> {
        let until = self.ctx.now().plus(CLAIM_TIME).ms();
        let moved = self.move_score(node, &until.to_string()).await?;
        node.score = until;
        Ok(moved)
    }

    /// Forgets a dead node whose devices are ended.
    pub async fn forget(&self, node: &DeadNode) -> Result<()> {
        self.move_score(node, "").await.map(drop)
    }

    async fn move_score(&self, node: &DeadNode, score: &str) -> Result<bool> {
        let call = CLAIM
            .keys(self.ctx.keys().nodes())
            .arg(&node.id)
            .arg(node.score)
            .arg(score);
        Ok(call.run(self.ctx.store()).await?)
    }

    /// Gives the lease back and leaves the index, so that nobody has to end this node. What another process with this id
    /// has taken stays its own.
    pub async fn resign(&self) -> Result<()> {
        *self.held.lock() = Held::default();
        let keys = self.ctx.keys();
        let mut store = self.ctx.store().repeatable();
        let call = RESIGN.keys(keys.node(&self.id)).arg(&self.epoch);
        if call.run(&store).await? {
            let mut leave = redis::cmd("ZREM");
            leave.arg(keys.nodes()).arg(&self.id);
            leave.exec_async(&mut store).await?;
        }
        Ok(())
    }
}
