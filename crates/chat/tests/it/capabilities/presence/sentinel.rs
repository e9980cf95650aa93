//! A failover while users are online, in real time.

use std::sync::Arc;
use std::time::Duration;

use parlor_chat::context::ChatContext;
use parlor_chat::ids::{NodeId, UserId};
use parlor_chat::keys::{KeySettings, Keyspace, Preset, TtlName};
use parlor_chat::nodes::LocalNode;
use parlor_chat::presence::{Presence, PresenceStatus};
use parlor_store::{BusEvent, Store, StoreOptions};
use parlor_testkit::{SentinelSet, eventually_within};

use super::fixture::{socket_device, user};

const USERS: usize = 1_000;
/// Shorter than a failover.
const LEASE: Duration = Duration::from_secs(2);
const GRACE: Duration = Duration::from_secs(2);
/// Timeout of a condition on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

async fn start(store: &Store, id: &str) -> Arc<Presence> {
    let mut settings = KeySettings::from_preset(Preset::Parlor);
    settings.ttls.set(TtlName::NodeLease, LEASE);
    let keys = Keyspace::new(settings, false).unwrap();
    let ctx = ChatContext::new(store.clone(), keys);
    let nodes = LocalNode::new(ctx.clone(), NodeId::new(id).unwrap(), GRACE);
    let node = Arc::new(Presence::new(ctx, Arc::new(nodes)));
    eventually_within(PATIENCE, "the node starts", async || node.start().await).await;
    node
}

/// Records the published events until that of the user `last`. Events from before the listener moved to the new primary
/// may be lost; their versions show it.
async fn announced(store: &Store) -> tokio::task::JoinHandle<Vec<String>> {
    let mut events = store.bus().psubscribe("events:user.*").await.unwrap();
    tokio::spawn(async move {
        let mut announced = Vec::new();
        loop {
            let Some(BusEvent::Message {
                channel, payload, ..
            }) = events.next().await
            else {
                continue;
            };
            let payload = String::from_utf8_lossy(&payload).into_owned();
            if payload.contains(r#""userId":"last""#) {
                return announced;
            }
            announced.push(format!("{} {payload}", String::from_utf8_lossy(&channel)));
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_failover_publishes_no_presence_event() {
    let mut servers = SentinelSet::start().await;
    let options = StoreOptions {
        request_timeout: Duration::from_secs(30),
        ..StoreOptions::new(servers.url().parse().unwrap())
    };
    let store = Store::open(options).await.unwrap();
    let nodes = [start(&store, "n0").await, start(&store, "n1").await];
    let _ticking: Vec<_> = nodes.iter().map(Presence::start_background_tasks).collect();
    let name = |who: usize| format!("u{who}");
    for who in 0..USERS {
        let device = socket_device(&name(who), &format!("s{who}"));
        nodes[who % 2].connect(device).await.unwrap();
    }
    let users: Vec<UserId> = (0..USERS).map(|who| user(&name(who))).collect();
    let before = nodes[0].statuses(&users).await.unwrap();
    // All writes must have reached the replicas. `WAIT` waits for the writes of its own connection, and therefore for
    // all writes before them.
    let primary = servers.primary_client().await;
    let mut primary = parlor_testkit::connect_with_test_timeout(&primary)
        .await
        .unwrap();
    let mut wait = redis::pipe();
    wait.set("last", "written").ignore();
    wait.cmd("WAIT").arg(2).arg(0);
    let reached: Vec<usize> = wait.query_async(&mut primary).await.unwrap();
    assert_eq!(reached, [2]);
    let announced = announced(&store).await;
    let epoch = *store.epoch().borrow();
    servers.kill9_primary().await;
    eventually_within(PATIENCE, "the store epoch rises", async || {
        *store.epoch().borrow() > epoch
    })
    .await;

    // A user whose node dies after the failover becomes offline when the nodes may expire others again. At that time
    // they would also have expired the other users.
    let dying = start(&store, "n2").await;
    eventually_within(PATIENCE, "the user connects", async || {
        let connected = dying.connect(socket_device("second-last", "s-x")).await;
        connected.map(drop)
    })
    .await;
    drop(dying);
    eventually_within(PATIENCE, "the nodes expire others", async || {
        let seen = nodes[0].status(&user("second-last")).await;
        seen.is_ok_and(|it| {
            it.status == PresenceStatus::Offline && !it.degraded && it.last_seen.is_some()
        })
    })
    .await;
    let after = nodes[0].statuses(&users).await.unwrap();
    assert_eq!(before, after, "no version changed");
    assert!(after.iter().all(|it| it.status == PresenceStatus::Online));
    eventually_within(PATIENCE, "all users are counted", async || {
        nodes[1].count().await.map(|count| count == 1_000)
    })
    .await;

    nodes[0]
        .connect(socket_device("last", "s-last"))
        .await
        .unwrap();
    let announced = announced.await.unwrap();
    let of_dying = |it: &&String| it.contains("second-last");
    assert_eq!(
        announced.iter().filter(of_dying).count(),
        announced.len(),
        "{announced:?}"
    );
    assert!(announced.last().is_some_and(|it| it.contains("offline")));
}
