//! Background tasks, in real time.

use std::sync::Arc;

use parlor_chat::presence::PresenceStatus;
use parlor_testkit::eventually;

use super::fixture::{GRACE, LEASE, PresenceFixture, socket_device, user};
use super::on_every_engine;

on_every_engine! {
    background_tasks_notify_watchers_keep_the_lease_and_reap_dead_nodes;
}

async fn background_tasks_notify_watchers_keep_the_lease_and_reap_dead_nodes(
    mut fixture: PresenceFixture,
) {
    let dead = fixture.nodes.remove(0);
    dead.connect(socket_device("alice", "s1")).await.unwrap();
    drop(dead);
    let node = Arc::new(fixture.nodes.remove(0));
    let mut watcher = node.new_watcher();
    watcher.watch(&[user("alice"), user("bob")]).await.unwrap();
    let ticking = node.start_background_tasks();
    node.connect(socket_device("bob", "s2")).await.unwrap();
    let news = watcher.next().await;
    assert_eq!(news.len(), 1);
    assert_eq!(
        (&news[0].user_id, news[0].status),
        (&user("bob"), PresenceStatus::Online)
    );

    // Steps much shorter than a lease, so that the background tasks keep it.
    let lease = fixture
        .keys
        .node_lease(&parlor_chat::ids::NodeId::new("n1").unwrap());
    for _ in 0..8 {
        fixture.advance((LEASE + GRACE) / 8).await;
        let renewed = eventually("the lease is renewed", async || {
            let mut left = redis::cmd("PTTL");
            let mut store = fixture.store.clone();
            let left = left.arg(&lease).query_async(&mut store).await;
            left.map(|left: i64| left > 4_000)
        });
        renewed.await;
    }
    let news = eventually("alice is offline", async || {
        let news = watcher.try_next();
        (!news.is_empty()).then_some(news)
    });
    assert_eq!(news.await[0].status, PresenceStatus::Offline);
    drop(ticking);
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "online bob", "offline alice"]
    );
}
