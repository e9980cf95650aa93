//! A node in a process of its own: this test binary, run again. Orders come and answers go through lists in the store.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use parlor_chat::context::Context;
use parlor_chat::ids::NodeId;
use parlor_chat::keys::{Keyspace, Preset, Settings, TtlName};
use parlor_chat::nodes::Nodes;
use parlor_chat::presence::Presence;
use parlor_store::{Options, Store};
use parlor_testkit::{Node, Redis, eventually_within};
use redis::AsyncTypedCommands;
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::presence::world::socket;

/// The variable that tells the process what it is.
const PLACE: &str = "PARLOR_TEST_NODE";
/// How often clients beat.
const BEAT: Duration = Duration::from_secs(5);
/// Connects at the same time.
const AT_ONCE: usize = 64;
/// How long an order may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Serialize, Deserialize)]
pub struct Place {
    pub url: String,
    pub id: String,
    pub lease: Duration,
    pub grace: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// These clients connect: user and socket.
    Connect(Vec<(String, String)>),
    /// Everything a node does once a second, from its beginning to its end.
    Look,
    /// The node ends as it should.
    Drain,
}

pub fn settings(lease: Duration) -> Keyspace {
    let mut settings = Settings::from_preset(Preset::Parlor);
    settings.ttls.set(TtlName::NodeLease, lease);
    Keyspace::new(settings, false).unwrap()
}

fn list(direction: &str, id: &str) -> String {
    format!("test:{direction}:{id}")
}

/// The process from outside.
pub struct Remote {
    process: Node,
    id: String,
    store: MultiplexedConnection,
}

impl Remote {
    pub async fn start(server: &Redis, place: &Place) -> Self {
        let program = std::env::current_exe().unwrap();
        let process = Node::options(program)
            .arg("--exact")
            .arg("presence::processes::node::in_a_child_a_node_runs")
            .arg("--nocapture")
            .env(PLACE, serde_json::to_string(place).unwrap())
            .spawn();
        let mut remote = Self {
            process,
            id: place.id.clone(),
            store: server.connection().await,
        };
        remote.answer().await;
        remote
    }

    /// Gives an order and does not wait.
    pub async fn order(&mut self, order: &Order) {
        let order = serde_json::to_string(order).unwrap();
        self.store.rpush(list("to", &self.id), order).await.unwrap();
    }

    /// Waits until an order is done, or the start.
    pub async fn answer(&mut self) {
        let what = format!("{} answers", self.id);
        eventually_within(PATIENCE, &what, async || {
            assert!(self.process.is_running(), "{}", self.process.output());
            let from = list("from", &self.id);
            let answer: Option<String> = self.store.lpop(from, None).await.unwrap();
            answer
        })
        .await;
    }

    pub async fn does(&mut self, order: &Order) {
        self.order(order).await;
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

    /// Starts the process again after its end.
    pub async fn restart(&mut self) {
        self.process.restart().await;
        self.answer().await;
    }
}

/// The process itself: a part of other tests, which run it with its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "it is started with its place")]
async fn in_a_child_a_node_runs() {
    let Ok(place) = std::env::var(PLACE) else {
        return;
    };
    let place: Place = serde_json::from_str(&place).unwrap();
    let options = Options {
        timeout: Duration::from_secs(30),
        ..Options::new(place.url.parse().unwrap())
    };
    let store = Store::open(options).await.unwrap();
    let ctx = Context::new(store, settings(place.lease));
    let id = NodeId::new(&place.id).unwrap();
    let nodes = Nodes::new(ctx.clone(), id, place.grace);
    let presence = Arc::new(Presence::new(ctx, Arc::new(nodes)));
    presence.start().await.unwrap();
    let mut ticking = Some(presence.tick());
    let clients: Arc<Mutex<HashSet<(String, String)>>> = Arc::default();
    tokio::spawn(beat(Arc::clone(&presence), Arc::clone(&clients)));

    let client = redis::Client::open(place.url.as_str()).unwrap();
    let mut orders = parlor_testkit::connect(&client).await.unwrap();
    orders.rpush(list("from", &place.id), "up").await.unwrap();
    loop {
        let to = list("to", &place.id);
        let order: Option<[String; 2]> = orders.blpop(to, 1.0).await.unwrap();
        let Some([_, order]) = order else {
            continue;
        };
        match serde_json::from_str(&order).unwrap() {
            Order::Connect(sockets) => {
                clients.lock().extend(sockets.iter().cloned());
                connect(&presence, sockets).await;
            }
            Order::Look => {
                presence.renew().await.unwrap();
                presence.flush_beats().await.unwrap();
                presence.sweep().await.unwrap();
                presence.reap().await.unwrap();
            }
            Order::Drain => {
                ticking.take();
                clients.lock().clear();
                presence.drain().await.unwrap();
            }
        }
        orders.rpush(list("from", &place.id), "done").await.unwrap();
    }
}

async fn connect(presence: &Arc<Presence>, sockets: Vec<(String, String)>) {
    let mut connects = JoinSet::new();
    for (who, id) in sockets {
        let presence = Arc::clone(presence);
        connects.spawn(async move { presence.connect(socket(&who, &id)).await.unwrap() });
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
            presence.beat(&socket(who, id)).unwrap();
        }
    }
}
