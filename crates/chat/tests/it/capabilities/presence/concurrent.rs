//! Concurrent work: two nodes, many sockets, and sweepers that run all the time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parlor_chat::keys::PresenceLayout;
use parlor_chat::presence::Presence;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::expected_keys::{ExpectedKeys, assert_store_holds_exactly};
use super::fixture::{GRACE, PresenceFixture, socket_device, user};
use crate::support::Fixture;

const USERS: [&str; 6] = ["u0", "u1", "u2", "u3", "u4", "u5"];
const ROUNDS: usize = 150;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_alternate_under_concurrency_embedded() {
    announcements_alternate(PresenceFixture::embedded(PresenceLayout::Devices).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_alternate_under_concurrency_redis() {
    announcements_alternate(PresenceFixture::redis(PresenceLayout::Devices).await).await;
}

/// One client: connects, sends heartbeats, departs or is removed by the other node, many times.
async fn client(node: Arc<Presence>, other: Arc<Presence>, who: &'static str, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    for round in 0..ROUNDS {
        let device = socket_device(who, &format!("{who}-{seed}-{}", round % 2));
        node.connect(device.clone()).await.unwrap();
        if rng.random() {
            node.heartbeat(&device).unwrap();
            node.flush_heartbeats().await.unwrap();
        }
        match rng.random_range(0..3) {
            0 => node.disconnect(&device).await.unwrap(),
            1 => node.connection_lost(&device).await.unwrap(),
            _ => {
                other.remove_device(&device.user, &device.id).await.unwrap();
                // The reply to the heartbeat reports the removal to the node.
                node.heartbeat(&device).unwrap();
                node.flush_heartbeats().await.unwrap();
            }
        }
        // The embedded engine replies at once, so without a yield no other task would run.
        tokio::task::yield_now().await;
    }
}

async fn announcements_alternate(mut fixture: PresenceFixture) {
    let nodes: Vec<Arc<Presence>> = fixture.nodes.drain(..).map(Arc::new).collect();
    let over = Arc::new(AtomicBool::new(false));
    let mut sweepers = Vec::new();
    for node in &nodes {
        let (node, over) = (Arc::clone(node), Arc::clone(&over));
        let clock = fixture.store.clock().clone();
        sweepers.push(tokio::spawn(async move {
            let mut looked = 0;
            while !over.load(Ordering::Relaxed) {
                // Devices in their grace period expire during the test.
                clock.advance(Duration::from_millis(200));
                node.renew_lease().await.unwrap();
                looked += node.sweep().await.unwrap();
                tokio::task::yield_now().await;
            }
            looked
        }));
    }
    let mut clients = Vec::new();
    for (at, who) in USERS.into_iter().enumerate() {
        for (seed, node) in (0..).zip(&nodes) {
            let seed = seed + 2 * u64::try_from(at).unwrap();
            let other = &nodes[usize::from(seed % 2 == 0)];
            let (node, other) = (Arc::clone(node), Arc::clone(other));
            clients.push(tokio::spawn(client(node, other, who, seed)));
        }
    }
    // Read while the events arrive: the queue of a subscription holds a thousand messages.
    let mut announced = Vec::new();
    while !clients.iter().all(tokio::task::JoinHandle::is_finished) {
        announced.extend(fixture.drain_events().await);
        tokio::task::yield_now().await;
    }
    for client in clients {
        client.await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    let mut looked = 0;
    for sweeper in sweepers {
        looked += sweeper.await.unwrap();
    }
    assert!(looked > 0, "the sweepers checked users");
    fixture.nodes = nodes
        .into_iter()
        .map(|node| Arc::into_inner(node).unwrap())
        .collect();
    fixture.pass(GRACE * 3).await;
    fixture.run_background_once().await;
    fixture.run_background_once().await;

    let mut last: HashMap<String, (bool, u64)> = HashMap::new();
    announced.extend(fixture.drain_events().await);
    for (what, version) in announced {
        let (kind, who) = what.split_once(' ').unwrap();
        let (was, before) = last
            .insert(who.to_owned(), (kind == "online", version))
            .unwrap_or_default();
        assert_ne!(was, kind == "online", "{who} has the same event twice");
        assert!(version > before, "{who} has {version} after {before}");
    }
    assert_eq!(last.len(), USERS.len());
    assert!(last.values().all(|(online, _)| !online), "{last:?}");
    assert_eq!(fixture.nodes[0].count().await.unwrap(), 0);
    let mut shown = Vec::new();
    for who in USERS {
        let seen = fixture.nodes[0].status(&user(who)).await.unwrap();
        assert!(seen.last_seen.is_some());
        shown.push(ExpectedKeys::offline(who, &fixture).seen_at(seen.last_seen.unwrap()));
    }
    assert_store_holds_exactly(&fixture, &shown).await;
}
