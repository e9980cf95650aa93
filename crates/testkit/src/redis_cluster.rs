//! Redis Cluster of three primaries with one replica each.
//!
//! `growth.rs` adds a primary.
//!
//! Invariant: after `start`, every node reports that the cluster is up, all slots have an owner, and every replica is
//! in sync, so a failover can begin at once.

mod growth;

use futures_util::future::join_all;
use redis::{Client, RedisResult, cmd};

use crate::{
    Redis, RedisOptions, eventually,
    programs::RedisFlavor,
    redis_server::{connect_for_polling, hosts},
};

const PRIMARIES: usize = 3;
const NODES: usize = 6;
const SLOTS: usize = 16_384;

/// Options of a cluster.
#[must_use]
#[derive(Clone, Debug, Default)]
pub struct RedisClusterOptions {
    node: RedisOptions,
    fast_failover: bool,
}

impl RedisClusterOptions {
    /// Lets replicas replace a primary that is silent for 1.5 s. Without this option, a busy machine has 15 s.
    pub fn fast_failover(mut self) -> Self {
        self.fast_failover = true;
        self
    }

    /// Starts Valkey instead of Redis.
    pub fn valkey(mut self) -> Self {
        self.node = self.node.flavor(RedisFlavor::Valkey);
        self
    }

    /// Sets the password of every node.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.node = self.node.password(password);
        self
    }

    /// Adds a line to the configuration of every node.
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.node = self.node.config(line);
        self
    }

    /// Starts all six nodes and waits until they form one cluster.
    pub async fn start(self) -> RedisCluster {
        let options = self
            .node
            .config("cluster-enabled yes")
            .config("cluster-config-file nodes.conf")
            .config("cluster-announce-ip 127.0.0.1")
            .config("cluster-node-timeout 1500")
            // A replica takes over regardless of how long it was disconnected.
            .config("cluster-replica-validity-factor 0")
            .config("repl-ping-replica-period 1");
        let nodes = join_all((0..NODES).map(|_| options.clone().start())).await;
        let mut cluster = RedisCluster {
            nodes,
            node_options: options,
        };
        cluster.form_cluster().await;
        cluster.wait_until_stable().await;
        if !self.fast_failover {
            cluster.raise_node_timeout().await;
        }
        cluster
    }
}

/// Six running nodes. They end on drop.
pub struct RedisCluster {
    nodes: Vec<Redis>,
    /// Options of a further node.
    node_options: RedisOptions,
}

/// One line of `CLUSTER NODES`.
struct ClusterNodesLine {
    port: u16,
    is_healthy_primary: bool,
    first_slot: Option<u16>,
}

impl RedisCluster {
    /// Options of a cluster.
    pub fn options() -> RedisClusterOptions {
        RedisClusterOptions::default()
    }

    /// Starts a cluster with default options.
    pub async fn start() -> Self {
        Self::options().start().await
    }

    /// `redis+cluster://` URL with all six nodes.
    pub fn url(&self) -> String {
        let credentials = self.nodes[0].credentials();
        format!("redis+cluster://{credentials}{}", hosts(&self.nodes))
    }

    /// `redis://` URL of every node, for clients that take a list.
    pub fn node_urls(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::url).collect()
    }

    /// Ports of all nodes: first the initial primaries, then their replicas in the same order.
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(Redis::port).collect()
    }

    /// Process ids of all nodes.
    pub fn pids(&self) -> Vec<u32> {
        self.nodes.iter().map(Redis::pid).collect()
    }

    /// The node on this port, in its current role.
    pub fn node(&mut self, port: u16) -> &mut Redis {
        self.nodes
            .iter_mut()
            .find(|node| node.port() == port)
            .unwrap_or_else(|| panic!("no node of this cluster has port {port}"))
    }

    /// Ports of the current primaries, in the order of their slots.
    pub async fn primaries(&mut self) -> Vec<u16> {
        eventually("a node returns the primaries", async || {
            for node in self.running_nodes() {
                if let Ok(ports) = primaries_seen_by(node).await {
                    return Some(ports);
                }
            }
            None
        })
        .await
    }

    /// Clients of the current primaries, in the order of their slots.
    pub async fn primary_clients(&mut self) -> Vec<Client> {
        let ports = self.primaries().await;
        ports
            .into_iter()
            .map(|port| self.node(port).client())
            .collect()
    }

    /// Kills the `i`-th of [`RedisCluster::primaries`] and returns its port. Its replica takes over, see
    /// [`RedisClusterOptions::fast_failover`] and [`RedisCluster::wait_until_stable`].
    pub async fn kill9_primary(&mut self, i: usize) -> u16 {
        let port = self.primaries().await[i];
        self.node(port).kill9();
        port
    }

    /// Waits until all running nodes agree that the cluster is up, every slot belongs to a running node, and every
    /// running replica is in sync.
    pub async fn wait_until_stable(&mut self) {
        let running = self.running_nodes();
        let ports: Vec<_> = running.iter().map(|node| node.port()).collect();
        eventually("the cluster is up", async || -> RedisResult<bool> {
            for node in &running {
                let owners = primaries_seen_by(node).await?;
                let covered =
                    owners.len() == PRIMARIES && owners.iter().all(|port| ports.contains(port));
                if !covered || !is_up(node).await? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
        .await;
    }

    /// Raises the time that a node may be silent before a replica replaces it.
    async fn raise_node_timeout(&self) {
        for node in &self.nodes {
            let mut command = cmd("CONFIG");
            command.arg("SET").arg("cluster-node-timeout").arg(15_000);
            command
                .exec_async(&mut node.connection().await)
                .await
                .unwrap();
        }
    }

    fn running_nodes(&mut self) -> Vec<&Redis> {
        self.nodes
            .iter_mut()
            .filter_map(|node| node.is_running().then_some(&*node))
            .collect()
    }

    async fn form_cluster(&mut self) {
        let mut connections = Vec::new();
        let mut ids: Vec<String> = Vec::new();
        for node in &self.nodes {
            let mut connection = node.connection().await;
            ids.push(
                cmd("CLUSTER")
                    .arg("MYID")
                    .query_async(&mut connection)
                    .await
                    .unwrap(),
            );
            connections.push(connection);
        }
        // Each node gets its epoch and slots from the start, so the nodes need not agree on them first.
        for (i, connection) in connections.iter_mut().enumerate() {
            let mut setup = redis::pipe();
            setup.cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(i + 1);
            if i < PRIMARIES {
                let slots: Vec<_> = (SLOTS * i / PRIMARIES..SLOTS * (i + 1) / PRIMARIES).collect();
                setup.cmd("CLUSTER").arg("ADDSLOTS").arg(slots);
            }
            let () = setup.query_async(connection).await.unwrap();
        }
        // Every node meets every other node, which is faster than gossip.
        for (i, connection) in connections.iter_mut().enumerate().take(NODES - 1) {
            let mut meet = redis::pipe();
            for other in self.nodes.iter().skip(i + 1) {
                meet.cmd("CLUSTER")
                    .arg("MEET")
                    .arg("127.0.0.1")
                    .arg(other.port());
            }
            let () = meet.query_async(connection).await.unwrap();
        }
        for (i, connection) in connections.iter_mut().enumerate().skip(PRIMARIES) {
            eventually("a replica knows its primary", async || {
                let mut replicate = cmd("CLUSTER");
                replicate.arg("REPLICATE").arg(&ids[i - PRIMARIES]);
                replicate.exec_async(connection).await
            })
            .await;
        }
    }
}

async fn primaries_seen_by(node: &Redis) -> RedisResult<Vec<u16>> {
    let mut connection = connect_for_polling(&node.client()).await?;
    let table: String = cmd("CLUSTER")
        .arg("NODES")
        .query_async(&mut connection)
        .await?;
    let mut members: Vec<_> = table.lines().filter_map(ClusterNodesLine::parse).collect();
    members.retain(|member| member.is_healthy_primary && member.first_slot.is_some());
    members.sort_by_key(|member| member.first_slot);
    Ok(members.iter().map(|member| member.port).collect())
}

async fn is_up(node: &Redis) -> RedisResult<bool> {
    let mut connection = connect_for_polling(&node.client()).await?;
    let (cluster, replication): (String, String) = redis::pipe()
        .cmd("CLUSTER")
        .arg("INFO")
        .cmd("INFO")
        .arg("replication")
        .query_async(&mut connection)
        .await?;
    let knows_all = cluster.contains(&format!("cluster_known_nodes:{NODES}"));
    let in_sync =
        replication.contains("role:master") || replication.contains("master_link_status:up");
    Ok(cluster.contains("cluster_state:ok") && knows_all && in_sync)
}

impl ClusterNodesLine {
    /// Parses `id host:port@bus flags primary ping pong epoch link slots...`
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<_> = line.split(' ').collect();
        let (address, _) = fields.get(1)?.split_once('@')?;
        let (_, port) = address.rsplit_once(':')?;
        let flags: Vec<_> = fields.get(2)?.split(',').collect();
        let first_slot = fields
            .get(8)
            .and_then(|range| range.split('-').next()?.parse().ok());
        Some(Self {
            port: port.parse().ok()?,
            is_healthy_primary: flags.contains(&"master") && !flags.contains(&"fail"),
            first_slot,
        })
    }
}
