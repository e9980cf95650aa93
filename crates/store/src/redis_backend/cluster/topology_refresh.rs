//! Refreshes the topology of a cluster while the store is open.
//!
//! Invariants:
//! 1. If a node does not answer in time, the next node is asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};

use super::topology::Topology;
use super::{ClusterInner, ClusterPools};
use crate::redis_backend::connector::timeout_error;
use crate::telemetry;
use crate::url::ServerAddress;

/// Interval of refreshes without a request.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);
/// Shortest time between two refreshes.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_millis(100);

/// Time after which the pool of a node is closed if no redirection has named the node.
const UNUSED_POOL_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for a node's reply before the next node is asked.
const TOPOLOGY_TIMEOUT: Duration = Duration::from_secs(1);

/// Refreshes the topology until the task is aborted.
pub(super) async fn refresh_topology_loop(core: Arc<ClusterInner>) {
    loop {
        let _ = tokio::time::timeout(REFRESH_INTERVAL, core.refresh_requested.notified()).await;
        // The pools report failures themselves. Here a failure only means that the next round tries again.
        let _ = core.refresh_topology().await;
        let _ = core.reconcile_epoch(None).await;
        core.drop_unused_pools();
        tokio::time::sleep(MIN_REFRESH_INTERVAL).await;
    }
}

fn cluster_slots_cmd() -> Cmd {
    let mut cmd = redis::cmd("CLUSTER");
    cmd.arg("SLOTS");
    cmd
}

impl ClusterInner {
    /// Refreshes the topology and the pools.
    async fn refresh_topology(&self) -> RedisResult<()> {
        let topology = match self.query_primaries().await {
            Some(topology) => topology,
            None => {
                let mut nodes = self.pools.load().topology.known_nodes.clone();
                nodes.extend_from_slice(&self.seeds);
                self.query_nodes(&nodes).await?
            }
        };
        let before = self.pools.load_full();
        if before.topology == topology || topology.primaries.is_empty() {
            return Ok(());
        }
        let mut redirect_pools = std::mem::take(&mut *self.redirect_pools.lock());
        let pools = topology.primaries.iter().map(|primary| {
            let known = before.pool_of(primary).map(Arc::clone);
            known
                .or_else(|| redirect_pools.remove(primary).map(|(pool, _)| pool))
                .unwrap_or_else(|| self.open_pool(primary))
        });
        let pools = pools.collect();
        telemetry::topology_changed(topology.primaries.len());
        // If a removed server returns, its incarnation is fetched again.
        let is_primary = |address: &ServerAddress| topology.primaries.contains(address);
        self.pool_owner
            .incarnations
            .lock()
            .retain(|address, _| is_primary(address));
        self.pools.store(Arc::new(ClusterPools { topology, pools }));
        self.topology_version.send_modify(|version| *version += 1);
        Ok(())
    }

    /// Closes pools that no redirection has named for a while. Otherwise a node that left the cluster would count as
    /// down for ever.
    fn drop_unused_pools(&self) {
        let now = Instant::now();
        self.redirect_pools
            .lock()
            .retain(|_, (_, used)| now.saturating_duration_since(*used) < UNUSED_POOL_TIMEOUT);
    }

    async fn query_primaries(&self) -> Option<Topology> {
        let cluster = self.pools.load_full();
        // Each refresh starts with another primary, so that a primary that hangs unnoticed is not asked first every
        // time.
        let first = self.round_robin.fetch_add(1, Ordering::Relaxed);
        for step in 0..cluster.pools.len() {
            let index = (first + step) % cluster.pools.len();
            let (pool, primary) = (&cluster.pools[index], &cluster.topology.primaries[index]);
            if !pool.is_ready() {
                continue;
            }
            let deadline = Instant::now() + self.shared.request_timeout.min(TOPOLOGY_TIMEOUT);
            if let Ok(reply) = pool.command(&cluster_slots_cmd(), deadline).await
                && let Ok(topology) = reply
                    .extract_error()
                    .and_then(|reply| Topology::parse(reply, primary))
            {
                return Some(topology);
            }
        }
        None
    }

    /// Topology from the first of these nodes that answers.
    pub(super) async fn query_nodes(&self, nodes: &[ServerAddress]) -> RedisResult<Topology> {
        let mut last = RedisError::from((ErrorKind::ClusterConnectionNotFound, "no node to ask"));
        for node in nodes {
            let ask = async {
                let mut con = self.connector.connect(node).await?;
                let reply = cluster_slots_cmd().query_async::<Value>(&mut con).await?;
                Topology::parse(reply, node)
            };
            match tokio::time::timeout(self.connector.connect_timeout(), ask).await {
                Ok(Ok(topology)) => return Ok(topology),
                Ok(Err(error)) => last = error,
                Err(_) => last = timeout_error("no node answered in time"),
            }
        }
        Err(last)
    }
}
