//! A node in its own process: this test binary, started again. Commands and replies go through lists in the store.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use parlor_chat::context::ChatContext;
use parlor_chat::ids::NodeId;
use parlor_chat::keys::{KeySettings, Keyspace, Preset, TtlName};
use parlor_chat::nodes::LocalNode;
use parlor_chat::presence::Presence;
use parlor_store::{Store, StoreOptions};
use parlor_testkit::{Redis, ServerProcess, eventually_within};
use redis::AsyncTypedCommands;
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::capabilities::presence::fixture::socket_device;

/// Environment variable with the configuration of the node process.
const NODE_CONFIG_VAR: &str = "PARLOR_TEST_NODE";
/// Heartbeat interval of the clients.
const BEAT: Duration = Duration::from_secs(5);
/// Maximum number of concurrent connects.
const AT_ONCE: usize = 64;
/// Timeout of a command on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Serialize, Deserialize)]
pub struct NodeConfig {
    pub url: String,
    pub id: String,
    pub lease: Duration,
    pub grace: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum NodeCommand {
    /// Connects these clients: user and socket.
    Connect(Vec<(String, String)>),
    /// Runs the background work once.
    RunBackground,
    /// Shuts the node down.
    Drain,
}

pub fn settings(lease: Duration) -> Keyspace {
    let mut settings = KeySettings::from_preset(Preset::Parlor);
    settings.ttls.set(TtlName::NodeLease, lease);
    Keyspace::new(settings, false).unwrap()
}

fn queue_key(direction: &str, id: &str) -> String {
    format!("test:{direction}:{id}")
}

/// Handle of a node process.
pub struct NodeProcess {
    process: ServerProcess,
    id: String,
    store: MultiplexedConnection,
}

impl NodeProcess {
    pub async fn start(server: &Redis, place: &NodeConfig) -> Self {
        let program = std::env::current_exe().unwrap();
        let process = ServerProcess::options(program)
            .arg("--exact")
            .arg("capabilities::presence::node_crash::node_process::in_a_child_a_node_runs")
            .arg("--nocapture")
            .env(NODE_CONFIG_VAR, serde_json::to_string(place).unwrap())
            .spawn();
        let mut remote = Self {
            process,
            id: place.id.clone(),
            store: server.connection().await,
        };
        remote.answer().await;
        remote
    }

    /// Sends a command without waiting for the reply.
    pub async fn send(&mut self, order: &NodeCommand) {
        let order = serde_json::to_string(order).unwrap();
        self.store
            .rpush(queue_key("to", &self.id), order)
            .await
            .unwrap();
    }

    /// Waits for the reply to a command or to the start.
    pub async fn answer(&mut self) {
        let what = format!("{} replies", self.id);
        eventually_within(PATIENCE, &what, async || {
            assert!(self.process.is_running(), "{}", self.process.output());
            let from = queue_key("from", &self.id);
            let answer: Option<String> = self.store.lpop(from, None).await.unwrap();
            answer
        })
        .await;
    }

    pub async fn run(&mut self, order: &NodeCommand) {
        self.send(order).await;
        self.answer().await;
    }

    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    pub fn pause(&mut self) {
        self.process.pause();
    }

    pub fn resume(&mut self) {
        self.process.resume();
    }

    /// Starts the process again after it has ended.
    pub async fn restart(&mut self) {
        self.process.restart().await;
        self.answer().await;
    }
}

/// Entry point of the node process: other tests start it with its configuration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "set by the parent")]
async fn in_a_child_a_node_runs() {
    let Ok(place) = std::env::var(NODE_CONFIG_VAR) else {
        return;
    };
    let place: NodeConfig = serde_json::from_str(&place).unwrap();
    let options = StoreOptions {
        request_timeout: Duration::from_secs(30),
        ..StoreOptions::new(place.url.parse().unwrap())
    };
    let store = Store::open(options).await.unwrap();
    let ctx = ChatContext::new(store, settings(place.lease));
    let id = NodeId::new(&place.id).unwrap();
    let nodes = LocalNode::new(ctx.clone(), id, place.grace);
    let presence = Arc::new(Presence::new(ctx, Arc::new(nodes)));
    presence.start().await.unwrap();
    let mut ticking = Some(presence.start_background_tasks());
    let clients: Arc<Mutex<HashSet<(String, String)>>> = Arc::default();
    tokio::spawn(beat(Arc::clone(&presence), Arc::clone(&clients)));

    let client = redis::Client::open(place.url.as_str()).unwrap();
    let mut orders = parlor_testkit::connect_with_test_timeout(&client)
        .await
        .unwrap();
    orders
        .rpush(queue_key("from", &place.id), "up")
        .await
        .unwrap();
    loop {
        let to = queue_key("to", &place.id);
        let order: Option<[String; 2]> = orders.blpop(to, 1.0).await.unwrap();
        let Some([_, order]) = order else {
            continue;
        };
        match serde_json::from_str(&order).unwrap() {
            NodeCommand::Connect(sockets) => {
                clients.lock().extend(sockets.iter().cloned());
                connect(&presence, sockets).await;
            }
            NodeCommand::RunBackground => {
                presence.renew_lease().await.unwrap();
                presence.flush_heartbeats().await.unwrap();
                presence.sweep().await.unwrap();
                presence.reap_dead_nodes().await.unwrap();
            }
            NodeCommand::Drain => {
                ticking.take();
                clients.lock().clear();
                presence.drain().await.unwrap();
            }
        }
        orders
            .rpush(queue_key("from", &place.id), "done")
            .await
            .unwrap();
    }
}

async fn connect(presence: &Arc<Presence>, sockets: Vec<(String, String)>) {
    let mut connects = JoinSet::new();
    for (who, id) in sockets {
        let presence = Arc::clone(presence);
        connects.spawn(async move { presence.connect(socket_device(&who, &id)).await.unwrap() });
        if connects.len() >= AT_ONCE {
            connects.join_next().await.unwrap().unwrap();
        }
    }
    connects.join_all().await;
}

async fn beat(presence: Arc<Presence>, clients: Arc<Mutex<HashSet<(String, String)>>>) {
    let mut beats = tokio::time::interval(BEAT);
    loop {
        beats.tick().await;
        for (who, id) in clients.lock().iter() {
            presence.heartbeat(&socket_device(who, id)).unwrap();
        }
    }
}
