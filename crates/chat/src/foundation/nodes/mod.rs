//! Nodes: the lease of this process, and its claims on nodes that died.
//!
//! Invariants:
//! 1. A node is alive while its lease key exists. The key holds a boot id that is random per process start, so a
//!    restarted process with the same node id does not continue the old lease.
//! 2. A node declares others dead only after it has renewed its own lease without a break for lease + grace period.
//!    After a store outage all leases may have ended; this wait gives every node time to take its lease again.
//! 3. Of the nodes that find the same dead node, one claims it and removes its devices. If that node dies too, its
//!    claim ends and another node claims it.

mod claims;
pub mod keys;
mod lease;

use std::time::Duration;

use parking_lot::Mutex;

use self::lease::LeaseState;
use crate::context::ChatContext;
use crate::ids::NodeId;

pub use self::claims::ClaimedNode;
pub use self::lease::LeaseRenewal;

/// This process as a node.
#[derive(Debug)]
pub struct LocalNode {
    ctx: ChatContext,
    id: NodeId,
    /// Random per process start.
    boot_id: String,
    grace_period: Duration,
    lease_state: Mutex<LeaseState>,
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
}
