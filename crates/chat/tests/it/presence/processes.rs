//! Three nodes as processes on one Redis, in real time: what others hear when one is killed, restarted or stopped.

mod node;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use parlor_chat::context::Context;
use parlor_chat::ids::{NodeId, UserId};
use parlor_chat::nodes::Nodes;
use parlor_chat::presence::{MOST_READ, Presence, Status};
use parlor_store::{Event, Listening, Options, Sink, Store};
use parlor_testkit::{Redis, eventually_within};

use self::node::{Order, Place, Remote, settings};
use super::world::user;

const USERS: usize = 3_000;
const NODES: usize = 3;
const LEASE: Duration = Duration::from_secs(5);
/// How long a condition may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// The nodes on which a user has devices: one to three.
fn places(who: usize) -> Vec<usize> {
    let devices = who % 3 + 1;
    let digits = (1..=3).map(|it| who / 3_usize.pow(it) % NODES);
    digits.take(devices).collect()
}

fn name(who: usize) -> String {
    format!("u{who}")
}

/// The users who have all their devices on one node.
fn only_on(node: usize) -> BTreeSet<String> {
    let alone = |who: &usize| places(*who).iter().all(|place| *place == node);
    (0..USERS).filter(alone).map(name).collect()
}

/// The clients of a node: user and socket.
fn clients(node: usize, connection: &str) -> Vec<(String, String)> {
    let of_user = |who: usize| {
        let devices = places(who).into_iter().enumerate();
        let here = devices.filter(move |(_, place)| *place == node);
        here.map(move |(device, _)| (name(who), format!("u{who}-{device}-{connection}")))
    };
    (0..USERS).flat_map(of_user).collect()
}

/// What was announced of each user, in order.
type Heard = BTreeMap<String, Vec<&'static str>>;

struct Town {
    nodes: Vec<Remote>,
    /// Somebody who only looks.
    eye: Presence,
    store: Store,
    heard: Arc<Ear>,
    _listening: [Listening; 2],
    _server: Redis,
}

/// Notes what is announced where it is read: a queue in between could be too short.
#[derive(Default)]
struct Ear(Mutex<Heard>);

impl Sink for Ear {
    fn tell(&self, event: &Event) {
        let (who, what) = match event {
            Event::Message {
                channel, payload, ..
            } => {
                let payload: serde_json::Value = serde_json::from_slice(payload).unwrap();
                let online = channel.ends_with(b".online");
                let what = if online { "online" } else { "offline" };
                (payload["userId"].as_str().unwrap().to_owned(), what)
            }
            Event::MaybeMissed => ("an announcement".to_owned(), "may be missing"),
        };
        self.0.lock().entry(who).or_default().push(what);
    }
}

impl Town {
    /// Everybody is there.
    async fn start(grace: Duration) -> Self {
        let server = Redis::start().await;
        let options = Options {
            timeout: Duration::from_secs(30),
            ..Options::new(server.url().parse().unwrap())
        };
        let store = Store::open(options).await.unwrap();
        let heard: Arc<Ear> = Arc::default();
        let listening = [
            listen(&store, "events:user.online", &heard).await,
            listen(&store, "events:user.offline", &heard).await,
        ];
        let mut nodes = Vec::new();
        for at in 0..NODES {
            let place = Place {
                url: server.url(),
                id: format!("n{at}"),
                lease: LEASE,
                grace,
            };
            nodes.push(Remote::start(&server, &place).await);
        }
        let ctx = Context::new(store.clone(), settings(LEASE));
        let eye = Nodes::new(ctx.clone(), NodeId::new("eye").unwrap(), grace);
        let mut town = Self {
            nodes,
            eye: Presence::new(ctx, Arc::new(eye)),
            store,
            heard,
            _listening: listening,
            _server: server,
        };
        for (at, node) in town.nodes.iter_mut().enumerate() {
            node.order(&Order::Connect(clients(at, "first"))).await;
        }
        for node in &mut town.nodes {
            node.answer().await;
        }
        town.hears("everybody is online", |heard| heard.len() == USERS)
            .await;
        assert!(town.everything().await.values().all(|it| it == &["online"]));
        town.heard.0.lock().clear();
        town
    }

    /// Waits until what was announced fits.
    async fn hears(&self, what: &str, fits: impl Fn(&Heard) -> bool) {
        eventually_within(PATIENCE, what, async || {
            let heard = self.heard.0.lock();
            let first = heard.iter().take(3).collect::<Vec<_>>();
            let told = format!("{} users, such as {first:?}", heard.len());
            if fits(&heard) { Ok(()) } else { Err(told) }
        })
        .await;
    }

    /// Lets nodes do all they have to do.
    async fn look(&mut self, nodes: &[usize]) {
        for _ in 0..2 {
            for at in nodes {
                self.nodes[*at].does(&Order::Look).await;
            }
        }
    }

    /// Everything that was announced, the last included.
    async fn everything(&self) -> Heard {
        let marker = r#"{"userId":"marker"}"#;
        let bus = self.store.bus();
        bus.publish("events:user.online", marker).await.unwrap();
        self.hears("the marker", |heard| heard.contains_key("marker"))
            .await;
        let mut heard = self.heard.0.lock();
        heard.remove("marker");
        heard.clone()
    }

    async fn all_are_seen(&self, expected: impl Fn(&str) -> Status) {
        let users: Vec<UserId> = (0..USERS).map(|who| user(&name(who))).collect();
        for page in users.chunks(MOST_READ) {
            for seen in self.eye.statuses(page).await.unwrap() {
                let who = seen.user_id.as_str();
                assert_eq!(seen.status, expected(who), "{who}");
            }
        }
    }
}

async fn listen(store: &Store, channel: &str, ear: &Arc<Ear>) -> Listening {
    let sink = Arc::clone(ear) as Arc<dyn Sink>;
    store.bus().listen(channel, sink).await.unwrap()
}

/// Each of these users, and nobody else, had these changes.
fn exactly(users: &BTreeSet<String>, changes: &[&'static str]) -> Heard {
    let each = users.iter().map(|who| (who.clone(), changes.to_vec()));
    each.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_takes_those_who_were_only_there_and_nobody_else() {
    let mut town = Town::start(Duration::from_secs(3)).await;
    let gone = only_on(1);
    assert!(gone.len() > 400, "{}", gone.len());
    town.nodes[1].kill9();
    town.hears("they are offline", |heard| heard.len() >= gone.len())
        .await;
    town.look(&[0, 2]).await;
    assert_eq!(town.everything().await, exactly(&gone, &["offline"]));
    let here = |who: &str| match gone.contains(who) {
        true => Status::Offline,
        false => Status::Online,
    };
    town.all_are_seen(here).await;
    let count = town.eye.count().await.unwrap();
    assert_eq!(count, u64::try_from(USERS - gone.len()).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_node_loses_its_users_once_and_brings_them_back_once() {
    let mut town = Town::start(Duration::from_secs(3)).await;
    let gone = only_on(1);
    town.nodes[1].pause();
    town.hears("they are offline", |heard| heard.len() >= gone.len())
        .await;
    town.look(&[0, 2]).await;
    assert_eq!(town.everything().await, exactly(&gone, &["offline"]));
    town.nodes[1].resume();
    town.hears("they are back", |heard| {
        heard.values().all(|changes| changes.len() >= 2)
    })
    .await;
    town.look(&[0, 1, 2]).await;
    let changes = exactly(&gone, &["offline", "online"]);
    assert_eq!(town.everything().await, changes);
    town.all_are_seen(|_| Status::Online).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_node_whose_clients_come_back_in_time_changes_nothing() {
    let mut town = Town::start(Duration::from_secs(10)).await;
    // One who does not come back tells when the grace time is over.
    let late = ("late".to_owned(), "late-socket".to_owned());
    town.nodes[1].does(&Order::Connect(vec![late])).await;
    town.nodes[1].does(&Order::Drain).await;
    town.nodes[1].kill9();
    // Half of them come to the other nodes, half to the one that is back.
    let (elsewhere, here): (Vec<_>, Vec<_>) = (0..)
        .zip(clients(1, "second"))
        .partition(|(at, _)| at % 2 == 0);
    let clients = |part: Vec<(usize, _)>| part.into_iter().map(|(_, it)| it).collect();
    town.nodes[0]
        .order(&Order::Connect(clients(elsewhere)))
        .await;
    town.nodes[1].restart().await;
    town.nodes[1].does(&Order::Connect(clients(here))).await;
    town.nodes[0].answer().await;
    town.hears("the late one is offline", |heard| {
        heard.get("late").is_some_and(|it| it.contains(&"offline"))
    })
    .await;
    town.look(&[0, 1, 2]).await;
    let late = BTreeSet::from(["late".to_owned()]);
    let changes = exactly(&late, &["online", "offline"]);
    assert_eq!(town.everything().await, changes);
    town.all_are_seen(|_| Status::Online).await;
}
