//! Nodes that the clients connect to.

use std::collections::HashMap;

use futures_util::{Stream, StreamExt};
use parlor_testkit::{Postgres, Redis, ServerProcess, ServerProcessOptions};
use redis::aio::MultiplexedConnection;

use crate::http::client::{node, ready};

/// Store, database and number of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// One node on the embedded store and SQLite.
    Embedded,
    /// Three nodes on one Redis and one PostgreSQL.
    ThreeNodes,
}

pub struct World {
    pub nodes: Vec<ServerProcess>,
    shared: Option<(Redis, Postgres)>,
}

impl World {
    pub async fn start(ground: Ground) -> Self {
        Self::with(ground, &[]).await
    }

    /// Starts the nodes with additional settings.
    pub async fn with(ground: Ground, settings: &[(&str, &str)]) -> Self {
        let with =
            |options: ServerProcessOptions, (name, value): &(&str, &str)| options.env(name, value);
        let node = || settings.iter().fold(node(), with);
        if ground == Ground::Embedded {
            let nodes = vec![ready(node()).await];
            let shared = None;
            return Self { nodes, shared };
        }
        let (redis, postgres) = tokio::join!(Redis::start(), Postgres::start());
        let database = postgres.create_database().await;
        let mut nodes = Vec::new();
        for _ in 0..3 {
            let options = node().env("PARLOR_STORE__URL", redis.url());
            let options = options.env("PARLOR_DATABASE__URL", &database);
            // Many concurrent requests can take long.
            let options = options.env("PARLOR_STORE__TIMEOUT", "10s");
            nodes.push(ready(options).await);
        }
        Self {
            nodes,
            shared: Some((redis, postgres)),
        }
    }

    /// URL of a node. With one node, every number means that node.
    pub fn url(&self, node: usize) -> String {
        self.nodes[node % self.nodes.len()].http_url()
    }

    /// The store as other programs see it; `None` for an embedded store, which only its node can open.
    pub async fn keys(&self) -> Option<StoreView> {
        match &self.shared {
            Some((redis, _)) => Some(StoreView(redis.connection().await)),
            None => None,
        }
    }
}

impl World {
    /// Events that other programs receive on a channel.
    pub async fn events(&self, channel: &str) -> impl Stream<Item = String> + Unpin + use<> {
        let client = redis::Client::open(self.redis().url()).unwrap();
        let mut pubsub = client.get_async_pubsub().await.unwrap();
        pubsub.subscribe(channel).await.unwrap();
        let texts = pubsub.into_on_message().map(|it| it.get_payload().unwrap());
        Box::pin(texts)
    }

    /// Publishes like another program; returns the number of receivers.
    pub async fn publish(&self, channel: &str, text: &str) -> u64 {
        let mut connection = self.redis().connection().await;
        let mut publish = redis::cmd("PUBLISH");
        let receivers = publish.arg(channel).arg(text).query_async(&mut connection);
        receivers.await.unwrap()
    }

    fn redis(&self) -> &Redis {
        &self.shared.as_ref().expect("on a Redis").0
    }
}

/// The store as another program sees it.
pub struct StoreView(MultiplexedConnection);

impl StoreView {
    pub async fn text(&mut self, key: &str) -> Option<String> {
        self.ask("GET", key).await
    }

    pub async fn hash(&mut self, key: &str) -> HashMap<String, String> {
        self.ask("HGETALL", key).await
    }

    /// Newest entry of a list.
    pub async fn newest(&mut self, key: &str) -> serde_json::Value {
        let mut command = redis::cmd("LINDEX");
        let newest: String = command
            .arg(key)
            .arg(0)
            .query_async(&mut self.0)
            .await
            .unwrap();
        serde_json::from_str(&newest).unwrap()
    }

    /// TTL in milliseconds; negative if the key has no TTL or does not exist.
    pub async fn ttl(&mut self, key: &str) -> i64 {
        self.ask("PTTL", key).await
    }

    pub async fn exists(&mut self, key: &str) -> bool {
        self.ask("EXISTS", key).await
    }

    async fn ask<T: redis::FromRedisValue>(&mut self, command: &str, key: &str) -> T {
        let mut command = redis::cmd(command);
        let answer = command.arg(key).query_async(&mut self.0).await;
        answer.unwrap_or_else(|error| panic!("{key}: {error}"))
    }
}
