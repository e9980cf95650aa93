//! Nodes, store and database of a load test.

use std::net::SocketAddr;

use parlor_testkit::{Postgres, Redis, ServerProcess, ServerProcessOptions, eventually};
use serde_json::json;
use sqlx::{Connection, SqliteConnection};

use super::retrying_client::{Request, Wire};
use crate::support::{CommandOutput, PARLOR, embedded, get, run_in};
use crate::tokens::{SECRET, service};

/// Number of users; each is one client.
pub const USERS: usize = 200;
/// Number of conversations.
pub const CONVERSATIONS: usize = 50;
/// Conversations per user.
pub const PLACES: usize = 3;

/// Store and database of the nodes.
pub enum Ground {
    /// One node on the embedded store and SQLite.
    Embedded,
    /// This number of nodes on one Redis and one PostgreSQL.
    Shared(usize),
}

pub struct World {
    pub nodes: Vec<ServerProcess>,
    pub shared: Option<Shared>,
}

/// Servers that the nodes share.
pub struct Shared {
    pub redis: Redis,
    postgres: Postgres,
    database: String,
}

/// Id of a user.
pub fn user(number: usize) -> String {
    format!("u{:03}", number % USERS)
}

/// Id of a conversation.
pub fn conversation(number: usize) -> String {
    format!("c{:02}", number % CONVERSATIONS)
}

/// Conversations of a user: at least one has an even number and at least one an odd number.
pub fn places(user: usize) -> [usize; PLACES] {
    [0, 7, 14].map(|step| (user + step) % CONVERSATIONS)
}

impl World {
    /// Starts nodes without conversations and waits until they are ready.
    pub async fn start(ground: Ground) -> Self {
        let (count, shared) = match ground {
            Ground::Embedded => (1, None),
            Ground::Shared(nodes) => {
                let (redis, postgres) = tokio::join!(Redis::start(), Postgres::start());
                let database = postgres.create_database().await;
                let shared = Shared {
                    redis,
                    postgres,
                    database,
                };
                (nodes, Some(shared))
            }
        };
        let mut nodes = Vec::new();
        for _ in 0..count {
            let node = options(shared.as_ref()).start().await;
            ready(&node).await;
            nodes.push(node);
        }
        Self { nodes, shared }
    }

    /// Like [`start`](Self::start), with all conversations and their members.
    pub async fn populated(ground: Ground) -> Self {
        let world = Self::start(ground).await;
        let mut wire = world.wire(0);
        for number in 0..CONVERSATIONS {
            let members = (0..USERS).filter(|user| places(*user).contains(&number));
            let members: Vec<String> = members.map(user).collect();
            let body = json!({ "id": conversation(number), "kind": "group", "members": members });
            let create = Request::post(&members[0], "/v1/conversations", body);
            wire.ask(&create).await.unwrap().ok();
        }
        world
    }

    pub fn redis(&mut self) -> &mut Redis {
        &mut self.shared.as_mut().expect("on a Redis").redis
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        let address = |node: &ServerProcess| node.http_address();
        self.nodes.iter().map(address).collect()
    }

    /// Client of a service, first connected to the node with this number.
    pub fn wire(&self, node: usize) -> Wire {
        Wire::new(&self.addresses(), node, &service())
    }

    /// Restarts a node and waits until it is ready.
    pub async fn restart_node(&mut self, number: usize) {
        self.nodes[number].restart().await;
        ready(&self.nodes[number]).await;
    }

    /// Runs a statement whose rows have one text column, and returns the texts.
    pub async fn rows(&self, sql: &'static str) -> Vec<String> {
        if let Some(shared) = &self.shared {
            let found = shared.postgres.query_in(&shared.database, sql).await;
            return found.lines().map(str::to_owned).collect();
        }
        let path = self.nodes[0].data_folder().join("parlor.db");
        let url = format!("sqlite:{}", path.display());
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        let found = sqlx::query_scalar(sql).fetch_all(&mut connection);
        let found = found.await.unwrap();
        connection.close().await.unwrap();
        found
    }

    /// Runs commands on the store; the node of an embedded store must be stopped.
    pub async fn store<T: redis::FromRedisValue>(&self, pipe: &redis::Pipeline) -> T {
        match &self.shared {
            Some(shared) => {
                let mut connection = shared.redis.connection().await;
                pipe.query_async(&mut connection).await.unwrap()
            }
            None => {
                let store = embedded(&self.nodes[0].data_folder()).await;
                let answer = pipe.query_async(&mut store.clone()).await.unwrap();
                store.close().await;
                answer
            }
        }
    }

    /// Runs `parlor repair unread --dry-run`; the node of an embedded store must be stopped.
    pub async fn repair(&self) -> CommandOutput {
        let data = self.nodes[0].data_folder().display().to_string();
        let mut call = vec!["repair", "unread", "--dry-run", "--json", "--data", &data];
        let (url, database);
        if let Some(shared) = &self.shared {
            url = shared.redis.url();
            database = format!("database.url={}", shared.database);
            call.extend(["--store", &url, "--set", &database]);
        }
        run_in(self.nodes[0].folder(), &call, &[]).await
    }
}

fn options(shared: Option<&Shared>) -> ServerProcessOptions {
    let node = ServerProcess::parlor_serve(PARLOR)
        .env("PARLOR_AUTH__SECRET", SECRET)
        .env("PARLOR_LIMITS__MESSAGES", "10000")
        .env("PARLOR_LIMITS__HTTP", "10000")
        .env("PARLOR_LIMITS__HTTP_WINDOW", "1s");
    match shared {
        Some(shared) => node
            .env("PARLOR_STORE__URL", shared.redis.url())
            .env("PARLOR_DATABASE__URL", &shared.database)
            // Many concurrent requests can take long.
            .env("PARLOR_STORE__TIMEOUT", "10s"),
        None => node,
    }
}

/// Waits until a node is ready.
pub async fn ready(node: &ServerProcess) {
    eventually("the node is ready", async || {
        get(&node.http_url(), "/readyz").await.map(|it| it.0 == 200)
    })
    .await;
}
