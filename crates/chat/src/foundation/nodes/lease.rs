//! The lease of this process.
//!
//! ```text
//!              acquire_lease            held for lease + grace period
//! no lease ──────────────────▶ held ─────────────────────────────────▶ may expire others
//!                               ▲  │                                        │
//!                   renew_lease │  │ renewed too late, new store epoch,     │
//!                    ("free")   │  ▼ or another process ("rival")           │
//!                               └ lost ◀────────────────────────────────────┘
//! ```
//!
//! Invariant: the period begins again after each break, also if only the reply of a renewal was lost.

use std::time::Duration;

use parlor_store::{LuaScript, script};
use redis::pipe;

use super::LocalNode;
use crate::api::error::Result;
use crate::clock::{Timestamp, duration_millis};
use crate::keys::TtlName;

static RENEW_LEASE: LuaScript = script!("scripts/renew_lease.lua");
static RELEASE_LEASE: LuaScript = script!("scripts/release_lease.lua");

/// State of the own lease.
#[derive(Debug, Default)]
pub(super) struct LeaseState {
    /// Start of the unbroken period. `None` before the first lease, and while another process uses the same node id.
    held_since: Option<Timestamp>,
    /// Last successful renewal.
    last_renewed: Option<Timestamp>,
    /// Store epoch of that period. If a part of a Redis Cluster returns without the leases of other nodes, the epoch
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

impl LocalNode {
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
            // A node whose disk is full is alive.
            .query_async(&mut self.ctx.store().idempotent().with_deferred_writes())
            .await?;
        Ok(self.record_renewal(now, &holder))
    }

    fn record_renewal(&self, now: Timestamp, holder: &str) -> LeaseRenewal {
        let mut lease = self.lease_state.lock();
        match holder {
            "held" => {
                let duration = self.lease_duration();
                let expired = |last: Timestamp| last.saturating_add(duration) < now;
                let broken = lease.last_renewed.is_none_or(expired)
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
