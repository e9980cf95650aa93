//! Refreshes the topology of a cluster while the store is open.
//!
//! Invariants:
//! 1. If a node does not answer in time, the next node is asked.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};

use super::topology::Topology;
use super::{ClusterInner, ClusterPools};
use crate::clock::monotonic;
use crate::redis::connect::timeout_error;
use crate::telemetry::StoreTelemetryEvent;
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
        let _ = tokio::time::timeout(REFRESH_INTERVAL, core.doubt.notified()).await;
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
                nodes.extend(
                    self.seeds
                        .iter()
                        .filter(|seed| !nodes.contains(seed))
                        .cloned()
                        .collect::<Vec<_>>(),
                );
                self.query_nodes(&nodes).await?
            }
        };
        let before = self.pools.load_full();
        if before.topology == topology || topology.primaries.is_empty() {
            return Ok(());
        }
        let mut extra = self
            .redirect_pools
            .lock()
            .drain()
            .collect::<HashMap<_, _>>();
        let links = topology.primaries.iter().map(|primary| {
            let known = before
                .topology
                .primaries
                .iter()
                .position(|before| before == primary);
            known
                .map(|index| Arc::clone(&before.links[index]))
                .or_else(|| extra.remove(primary).map(|(link, _)| link))
                .unwrap_or_else(|| self.open_pool(primary))
        });
        let links = links.collect();
        StoreTelemetryEvent::TopologyChanged {
            primaries: topology.primaries.len(),
        }
        .emit();
        // If a removed server returns, its incarnation is fetched again.
        let is_primary = |address: &ServerAddress| topology.primaries.contains(address);
        self.host
            .incarnations
            .lock()
            .retain(|address, _| is_primary(address));
        self.pools.store(Arc::new(ClusterPools { topology, links }));
        self.watch_topology.send_modify(|version| *version += 1);
        Ok(())
    }

    /// Closes pools that no redirection has named for a while. Otherwise a node that left the cluster would count as
    /// down for ever.
    fn drop_unused_pools(&self) {
        let now = monotonic();
        self.redirect_pools
            .lock()
            .retain(|_, (_, used)| now.saturating_duration_since(*used) < UNUSED_POOL_TIMEOUT);
    }

    async fn query_primaries(&self) -> Option<Topology> {
        let map = self.pools.load_full();
        // Each refresh starts with another primary, so that a primary that hangs unnoticed is not asked first every
        // time.
        let first = self.round_robin.fetch_add(1, Ordering::Relaxed);
        for step in 0..map.links.len() {
            let index = (first + step) % map.links.len();
            let (link, primary) = (&map.links[index], &map.topology.primaries[index]);
            if !link.is_ready() {
                continue;
            }
            let deadline = monotonic() + self.shared.timeout.min(TOPOLOGY_TIMEOUT);
            if let Ok(reply) = link.command(&cluster_slots_cmd(), deadline).await
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
                let mut con = self.dialer.connect(node).await?;
                let reply = cluster_slots_cmd().query_async::<Value>(&mut con).await?;
                Topology::parse(reply, node)
            };
            match tokio::time::timeout(self.dialer.connect_timeout(), ask).await {
                Ok(Ok(topology)) => return Ok(topology),
                Ok(Err(error)) => last = error,
                Err(_) => last = timeout_error("no node answered in time"),
            }
        }
        Err(last)
    }
}
