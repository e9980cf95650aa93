//! Learning the topology of a cluster, for as long as it is open.
//!
//! Always true: what one node does not tell in time, the next one is asked.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};

use super::topology::Topology;
use super::{Core, Map};
use crate::clock::monotonic;
use crate::redis::connect::timed_out;
use crate::telemetry::Event;
use crate::url::Address;

/// How often the topology is asked for without a reason.
const TICK: Duration = Duration::from_secs(2);
/// The shortest time between two looks at the topology.
const GAP: Duration = Duration::from_millis(100);

/// How long a link is kept that no redirection names.
const UNUSED: Duration = Duration::from_secs(10);

/// How long a node gets to tell the topology before the next one is asked.
const ANSWER: Duration = Duration::from_secs(1);

/// Follows the topology.
pub(super) async fn keep(core: Arc<Core>) {
    loop {
        let _ = tokio::time::timeout(TICK, core.doubt.notified()).await;
        // Failures show in the links' own state; here they only mean to ask again.
        let _ = core.refresh().await;
        let _ = core.settle(None).await;
        core.drop_unused();
        tokio::time::sleep(GAP).await;
    }
}

fn slots_cmd() -> Cmd {
    let mut cmd = redis::cmd("CLUSTER");
    cmd.arg("SLOTS");
    cmd
}

impl Core {
    /// Learns the topology and follows it.
    async fn refresh(&self) -> RedisResult<()> {
        let topology = match self.ask_links().await {
            Some(topology) => topology,
            None => {
                let mut nodes = self.map.load().topology.nodes.clone();
                nodes.extend(
                    self.seeds
                        .iter()
                        .filter(|seed| !nodes.contains(seed))
                        .cloned()
                        .collect::<Vec<_>>(),
                );
                self.ask_anybody(&nodes).await?
            }
        };
        let before = self.map.load_full();
        if before.topology == topology || topology.primaries.is_empty() {
            return Ok(());
        }
        let mut extra = self.extra.lock().drain().collect::<HashMap<_, _>>();
        let links = topology.primaries.iter().map(|primary| {
            let known = before
                .topology
                .primaries
                .iter()
                .position(|before| before == primary);
            known
                .map(|index| Arc::clone(&before.links[index]))
                .or_else(|| extra.remove(primary).map(|(link, _)| link))
                .unwrap_or_else(|| self.link(primary))
        });
        let links = links.collect();
        Event::TopologyChanged {
            primaries: topology.primaries.len(),
        }
        .emit();
        // A server that comes back is asked anew who it is.
        let is_primary = |address: &Address| topology.primaries.contains(address);
        self.host
            .origins
            .lock()
            .retain(|address, _| is_primary(address));
        self.map.store(Arc::new(Map { topology, links }));
        self.version.send_modify(|version| *version += 1);
        Ok(())
    }

    /// Ends links that no redirection has named for a while: a node that is gone must not be a trouble for ever.
    fn drop_unused(&self) {
        let now = monotonic();
        self.extra
            .lock()
            .retain(|_, (_, used)| now.saturating_duration_since(*used) < UNUSED);
    }

    async fn ask_links(&self) -> Option<Topology> {
        let map = self.map.load_full();
        // Another one first each time: one that hangs and is not yet known to must not be asked first again and again.
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        for step in 0..map.links.len() {
            let index = (first + step) % map.links.len();
            let (link, primary) = (&map.links[index], &map.topology.primaries[index]);
            if !link.is_ready() {
                continue;
            }
            let deadline = monotonic() + self.shared.timeout.min(ANSWER);
            if let Ok(reply) = link.command(&slots_cmd(), deadline).await
                && let Ok(topology) = reply
                    .extract_error()
                    .and_then(|reply| Topology::parse(reply, primary))
            {
                return Some(topology);
            }
        }
        None
    }

    /// The topology as the first of these nodes that answers tells it.
    pub(super) async fn ask_anybody(&self, nodes: &[Address]) -> RedisResult<Topology> {
        let mut last = RedisError::from((ErrorKind::ClusterConnectionNotFound, "no node to ask"));
        for node in nodes {
            let ask = async {
                let mut con = self.dialer.dial(node).await?;
                let reply = slots_cmd().query_async::<Value>(&mut con).await?;
                Topology::parse(reply, node)
            };
            match tokio::time::timeout(self.dialer.patience(), ask).await {
                Ok(Ok(topology)) => return Ok(topology),
                Ok(Err(error)) => last = error,
                Err(_) => last = timed_out("no node answered in time"),
            }
        }
        Err(last)
    }
}
