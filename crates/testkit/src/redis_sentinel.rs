//! A primary with two replicas, monitored by three sentinels with a quorum of two.
//!
//! Invariant: after `start`, the replicas are in sync, and every sentinel knows both replicas and both other sentinels,
//! so a failover can begin at once.

use std::collections::HashMap;

use futures_util::future::join_all;
use redis::{Client, RedisResult, cmd};

use crate::{
    Redis, RedisOptions, eventually,
    programs::RedisFlavor,
    redis_options::quote_config_value,
    redis_server::{connect_for_polling, hosts},
};

/// Options of a sentinel set.
#[must_use]
#[derive(Clone, Debug)]
pub struct SentinelSetOptions {
    data_options: RedisOptions,
    name: String,
}

impl SentinelSetOptions {
    /// Sets the name of the monitored primary. Default: `parlor`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Starts Valkey instead of Redis.
    pub fn valkey(mut self) -> Self {
        self.data_options = self.data_options.flavor(RedisFlavor::Valkey);
        self
    }

    /// Sets the password of the primary and the replicas. The sentinels have no password.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.data_options = self.data_options.password(password);
        self
    }

    /// Adds a line to the configuration of the primary and the replicas.
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.data_options = self.data_options.config(line);
        self
    }

    /// Starts all six servers and waits until they know each other.
    pub async fn start(self) -> SentinelSet {
        let data = self
            .data_options
            .clone()
            .config("repl-ping-replica-period 1");
        let primary = data.clone().start().await;
        let replica = data.config(format!("replicaof 127.0.0.1 {}", primary.port()));
        let (one, two) = tokio::join!(replica.clone().start(), replica.start());
        let nodes = vec![primary, one, two];
        wait_for_replicas(&nodes).await;

        let options = self.sentinel(nodes[0].port());
        let sentinels = join_all((0..3).map(|_| options.clone().start())).await;
        let set = SentinelSet {
            data_servers: nodes,
            sentinels,
            name: self.name,
        };
        join_all(set.sentinels.iter().map(shorten_periods)).await;
        for sentinel in &set.sentinels {
            set.wait_for_sentinel(sentinel).await;
        }
        set
    }

    fn sentinel(&self, primary: u16) -> RedisOptions {
        let name = &self.name;
        let options = self
            .data_options
            .sentinel()
            .config(format!("sentinel monitor {name} 127.0.0.1 {primary} 2"))
            .config(format!("sentinel down-after-milliseconds {name} 1000"))
            .config(format!("sentinel failover-timeout {name} 3000"))
            .config(format!("sentinel parallel-syncs {name} 2"));
        match &self.data_options.password {
            Some(password) => options.config(format!(
                "sentinel auth-pass {name} {}",
                quote_config_value(password)
            )),
            None => options,
        }
    }
}

/// Six running servers. They end on drop.
pub struct SentinelSet {
    data_servers: Vec<Redis>,
    sentinels: Vec<Redis>,
    name: String,
}

impl SentinelSet {
    /// Options of a sentinel set.
    pub fn options() -> SentinelSetOptions {
        SentinelSetOptions {
            data_options: RedisOptions::default(),
            name: "parlor".to_owned(),
        }
    }

    /// Starts a sentinel set with default options.
    pub async fn start() -> Self {
        Self::options().start().await
    }

    /// `redis+sentinel://` URL with the three sentinels and the name of the primary.
    pub fn url(&self) -> String {
        let credentials = self.data_servers[0].credentials();
        let hosts = hosts(&self.sentinels);
        format!("redis+sentinel://{credentials}{hosts}/{}", self.name)
    }

    /// Name of the primary in the configuration of the sentinels.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ports of the sentinels.
    pub fn sentinel_ports(&self) -> Vec<u16> {
        self.sentinels.iter().map(Redis::port).collect()
    }

    /// Process ids of all six servers.
    pub fn pids(&self) -> Vec<u32> {
        self.data_servers
            .iter()
            .chain(&self.sentinels)
            .map(Redis::pid)
            .collect()
    }

    /// The sentinels, for example to stop or kill one.
    pub fn sentinels(&mut self) -> &mut [Redis] {
        &mut self.sentinels
    }

    /// The data server on this port, in its current role.
    pub fn node(&mut self, port: u16) -> &mut Redis {
        self.data_servers
            .iter_mut()
            .find(|node| node.port() == port)
            .unwrap_or_else(|| panic!("no data server of this set has port {port}"))
    }

    /// Port of the primary, as at least two sentinels report.
    pub async fn primary_port(&self) -> u16 {
        eventually("two sentinels agree on the primary", async || {
            let answers = join_all(
                self.sentinels
                    .iter()
                    .map(|sentinel| self.query_primary_port(sentinel)),
            )
            .await;
            let ports: Vec<u16> = answers.into_iter().flatten().collect();
            let votes = |port| ports.iter().filter(|vote| **vote == port).count();
            ports.iter().copied().find(|port| votes(*port) >= 2)
        })
        .await
    }

    async fn query_primary_port(&self, sentinel: &Redis) -> RedisResult<u16> {
        let mut connection = connect_for_polling(&sentinel.client()).await?;
        let mut ask = cmd("SENTINEL");
        ask.arg("get-master-addr-by-name").arg(&self.name);
        let (_, port): (String, u16) = ask.query_async(&mut connection).await?;
        Ok(port)
    }

    /// Client of the current primary.
    pub async fn primary_client(&self) -> Client {
        let port = self.primary_port().await;
        let node = self.data_servers.iter().find(|node| node.port() == port);
        node.expect("the sentinels report one of the servers of this set")
            .client()
    }

    /// Kills the primary and returns its port. The sentinels promote a replica.
    pub async fn kill9_primary(&mut self) -> u16 {
        let port = self.primary_port().await;
        self.node(port).kill9();
        port
    }

    async fn wait_for_sentinel(&self, sentinel: &Redis) {
        let mut connection = sentinel.connection().await;
        eventually(
            "the sentinel knows the replicas and the other sentinels",
            async || -> RedisResult<bool> {
                let mut ask = cmd("SENTINEL");
                ask.arg("master").arg(&self.name);
                let primary: HashMap<String, String> = ask.query_async(&mut connection).await?;
                let is =
                    |field: &str, value: &str| primary.get(field).is_some_and(|it| it == value);
                let known = is("flags", "master")
                    && is("num-slaves", "2")
                    && is("num-other-sentinels", "2");

                let mut ask = cmd("SENTINEL");
                ask.arg("replicas").arg(&self.name);
                let replicas: Vec<HashMap<String, String>> =
                    ask.query_async(&mut connection).await?;
                let linked = replicas
                    .iter()
                    .all(|it| it.get("master-link-status").is_some_and(|it| it == "ok"));
                Ok(known && linked)
            },
        )
        .await;
    }
}

/// Waits until the replicas are in sync. The first of `nodes` is the primary.
async fn wait_for_replicas(nodes: &[Redis]) {
    for node in &nodes[1..] {
        let mut connection = node.connection().await;
        eventually("the replica is in sync", async || {
            let info: String = cmd("INFO")
                .arg("replication")
                .query_async(&mut connection)
                .await
                .unwrap();
            info.contains("master_link_status:up")
        })
        .await;
    }
}

/// Shortens the periods of a sentinel, and the time (tilt) in which it does not act after the machine was suspended for
/// a moment.
async fn shorten_periods(sentinel: &Redis) {
    let mut debug = cmd("SENTINEL");
    debug.arg("debug");
    for (period, milliseconds) in [
        ("publish-period", 200),
        ("info-period", 200),
        ("ping-period", 200),
        ("ask-period", 200),
        ("tilt-period", 1000),
    ] {
        debug.arg(period).arg(milliseconds);
    }
    // Not supported before Redis 7; then a failover takes longer.
    let _: RedisResult<()> = debug.query_async(&mut sentinel.connection().await).await;
}
