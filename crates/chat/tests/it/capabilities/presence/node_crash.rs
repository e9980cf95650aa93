//! Three node processes on one Redis, in real time: the events when one of them is killed, restarted or stopped.

mod node_process;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use parlor_chat::context::ChatContext;
use parlor_chat::ids::{NodeId, UserId};
use parlor_chat::nodes::LocalNode;
use parlor_chat::presence::{MAX_USERS_PER_QUERY, Presence, PresenceStatus};
use parlor_store::{BusEvent, BusListener, BusListenerGuard, Store, StoreOptions};
use parlor_testkit::{Redis, eventually_within};

use self::node_process::{NodeCommand, NodeConfig, NodeProcess, settings};
use super::fixture::user;

const USERS: usize = 3_000;
const NODES: usize = 3;
const LEASE: Duration = Duration::from_secs(5);
/// Timeout of a condition on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// The nodes on which a user has devices: one to three.
fn nodes_of_user(who: usize) -> Vec<usize> {
    let devices = who % 3 + 1;
    let digits = (1..=3).map(|it| who / 3_usize.pow(it) % NODES);
    digits.take(devices).collect()
}

fn name(who: usize) -> String {
    format!("u{who}")
}

/// The users who have all their devices on one node.
fn users_only_on(node: usize) -> BTreeSet<String> {
    let alone = |who: &usize| nodes_of_user(*who).iter().all(|place| *place == node);
    (0..USERS).filter(alone).map(name).collect()
}

/// The clients of a node: user and socket.
fn clients(node: usize, connection: &str) -> Vec<(String, String)> {
    let of_user = |who: usize| {
        let devices = nodes_of_user(who).into_iter().enumerate();
        let here = devices.filter(move |(_, place)| *place == node);
        here.map(move |(device, _)| (name(who), format!("u{who}-{device}-{connection}")))
    };
    (0..USERS).flat_map(of_user).collect()
}

/// Published events of each user, in order.
type RecordedEvents = BTreeMap<String, Vec<&'static str>>;

struct ThreeNodes {
    nodes: Vec<NodeProcess>,
    /// Node that only reads.
    observer: Presence,
    store: Store,
    recorded: Arc<EventRecorder>,
    _listening: [BusListenerGuard; 2],
    _server: Redis,
}

/// Records the events in the callback: a queue could overflow.
#[derive(Default)]
struct EventRecorder(Mutex<RecordedEvents>);

impl BusListener for EventRecorder {
    fn on_event(&self, event: &BusEvent) {
        let (who, what) = match event {
            BusEvent::Message {
                channel, payload, ..
            } => {
                let payload: serde_json::Value = serde_json::from_slice(payload).unwrap();
                let online = channel.ends_with(b".online");
                let what = if online { "online" } else { "offline" };
                (payload["userId"].as_str().unwrap().to_owned(), what)
            }
            BusEvent::MaybeMissed => ("an event".to_owned(), "may be lost"),
        };
        self.0.lock().entry(who).or_default().push(what);
    }
}

impl ThreeNodes {
    /// Starts the nodes and connects all users.
    async fn start(grace: Duration) -> Self {
        let server = Redis::start().await;
        let options = StoreOptions {
            request_timeout: Duration::from_secs(30),
            ..StoreOptions::new(server.url().parse().unwrap())
        };
        let store = Store::open(options).await.unwrap();
        let recorded: Arc<EventRecorder> = Arc::default();
        let listening = [
            listen(&store, "events:user.online", &recorded).await,
            listen(&store, "events:user.offline", &recorded).await,
        ];
        let mut nodes = Vec::new();
        for at in 0..NODES {
            let place = NodeConfig {
                url: server.url(),
                id: format!("n{at}"),
                lease: LEASE,
                grace,
            };
            nodes.push(NodeProcess::start(&server, &place).await);
        }
        let ctx = ChatContext::new(store.clone(), settings(LEASE));
        let observer = LocalNode::new(ctx.clone(), NodeId::new("eye").unwrap(), grace);
        let mut three_nodes = Self {
            nodes,
            observer: Presence::new(ctx, Arc::new(observer)),
            store,
            recorded,
            _listening: listening,
            _server: server,
        };
        for (at, node) in three_nodes.nodes.iter_mut().enumerate() {
            node.send(&NodeCommand::Connect(clients(at, "first"))).await;
        }
        for node in &mut three_nodes.nodes {
            node.answer().await;
        }
        three_nodes
            .wait_for_events("all users are online", |recorded| recorded.len() == USERS)
            .await;
        assert!(
            three_nodes
                .all_events()
                .await
                .values()
                .all(|it| it == &["online"])
        );
        three_nodes.recorded.0.lock().clear();
        three_nodes
    }

    /// Waits until the recorded events fit.
    async fn wait_for_events(&self, what: &str, fits: impl Fn(&RecordedEvents) -> bool) {
        eventually_within(PATIENCE, what, async || {
            let recorded = self.recorded.0.lock();
            let first = recorded.iter().take(3).collect::<Vec<_>>();
            let description = format!("{} users, such as {first:?}", recorded.len());
            if fits(&recorded) {
                Ok(())
            } else {
                Err(description)
            }
        })
        .await;
    }

    /// Runs the background work of these nodes twice.
    async fn run_background(&mut self, nodes: &[usize]) {
        for _ in 0..2 {
            for at in nodes {
                self.nodes[*at].run(&NodeCommand::RunBackground).await;
            }
        }
    }

    /// Returns all events, including those that are still in flight.
    async fn all_events(&self) -> RecordedEvents {
        let marker = r#"{"userId":"marker"}"#;
        let bus = self.store.bus();
        bus.publish("events:user.online", marker).await.unwrap();
        self.wait_for_events("the marker", |recorded| recorded.contains_key("marker"))
            .await;
        let mut recorded = self.recorded.0.lock();
        recorded.remove("marker");
        recorded.clone()
    }

    async fn all_are_seen(&self, expected: impl Fn(&str) -> PresenceStatus) {
        let users: Vec<UserId> = (0..USERS).map(|who| user(&name(who))).collect();
        for page in users.chunks(MAX_USERS_PER_QUERY) {
            for seen in self.observer.statuses(page).await.unwrap() {
                let who = seen.user_id.as_str();
                assert_eq!(seen.status, expected(who), "{who}");
            }
        }
    }
}

async fn listen(store: &Store, channel: &str, recorder: &Arc<EventRecorder>) -> BusListenerGuard {
    let sink = Arc::clone(recorder) as Arc<dyn BusListener>;
    store.bus().add_listener(channel, sink).await.unwrap()
}

/// Exactly these users have exactly these events.
fn exactly(users: &BTreeSet<String>, changes: &[&'static str]) -> RecordedEvents {
    let each = users.iter().map(|who| (who.clone(), changes.to_vec()));
    each.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_a_node_takes_only_its_exclusive_users_offline() {
    let mut three_nodes = ThreeNodes::start(Duration::from_secs(3)).await;
    let gone = users_only_on(1);
    assert!(gone.len() > 400, "{}", gone.len());
    three_nodes.nodes[1].kill9();
    three_nodes
        .wait_for_events("the users are offline", |recorded| {
            recorded.len() >= gone.len()
        })
        .await;
    three_nodes.run_background(&[0, 2]).await;
    assert_eq!(three_nodes.all_events().await, exactly(&gone, &["offline"]));
    let here = |who: &str| match gone.contains(who) {
        true => PresenceStatus::Offline,
        false => PresenceStatus::Online,
    };
    three_nodes.all_are_seen(here).await;
    let count = three_nodes.observer.count().await.unwrap();
    assert_eq!(count, u64::try_from(USERS - gone.len()).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_node_loses_its_users_once_and_registers_them_again_once() {
    let mut three_nodes = ThreeNodes::start(Duration::from_secs(3)).await;
    let gone = users_only_on(1);
    three_nodes.nodes[1].pause();
    three_nodes
        .wait_for_events("the users are offline", |recorded| {
            recorded.len() >= gone.len()
        })
        .await;
    three_nodes.run_background(&[0, 2]).await;
    assert_eq!(three_nodes.all_events().await, exactly(&gone, &["offline"]));
    three_nodes.nodes[1].resume();
    three_nodes
        .wait_for_events("the users are online", |recorded| {
            recorded.values().all(|changes| changes.len() >= 2)
        })
        .await;
    three_nodes.run_background(&[0, 1, 2]).await;
    let changes = exactly(&gone, &["offline", "online"]);
    assert_eq!(three_nodes.all_events().await, changes);
    three_nodes.all_are_seen(|_| PresenceStatus::Online).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_node_whose_clients_reconnect_in_time_publishes_no_event() {
    let mut three_nodes = ThreeNodes::start(Duration::from_secs(10)).await;
    // This client does not reconnect, so its `offline` shows that the grace period is over.
    let late = ("late".to_owned(), "late-socket".to_owned());
    three_nodes.nodes[1]
        .run(&NodeCommand::Connect(vec![late]))
        .await;
    three_nodes.nodes[1].run(&NodeCommand::Drain).await;
    three_nodes.nodes[1].kill9();
    // Half of the clients reconnect to another node, half to the restarted node.
    let (elsewhere, here): (Vec<_>, Vec<_>) = (0..)
        .zip(clients(1, "second"))
        .partition(|(at, _)| at % 2 == 0);
    let clients = |part: Vec<(usize, _)>| part.into_iter().map(|(_, it)| it).collect();
    three_nodes.nodes[0]
        .send(&NodeCommand::Connect(clients(elsewhere)))
        .await;
    three_nodes.nodes[1].restart().await;
    three_nodes.nodes[1]
        .run(&NodeCommand::Connect(clients(here)))
        .await;
    three_nodes.nodes[0].answer().await;
    three_nodes
        .wait_for_events("the user `late` is offline", |recorded| {
            recorded
                .get("late")
                .is_some_and(|it| it.contains(&"offline"))
        })
        .await;
    three_nodes.run_background(&[0, 1, 2]).await;
    let late = BTreeSet::from(["late".to_owned()]);
    let changes = exactly(&late, &["online", "offline"]);
    assert_eq!(three_nodes.all_events().await, changes);
    three_nodes.all_are_seen(|_| PresenceStatus::Online).await;
}
