//! Futures that are dropped before they complete, and the effect of their first half.

use std::future::Future;

use parlor_chat::ids::{UserId, WatchShard};
use parlor_chat::presence::PresenceStatus;

use super::fixture::{GRACE, PresenceFixture, api_device, socket_device, user};
use super::on_every_engine;

on_every_engine! {
    a_cancelled_connect_counts_as_a_lost_connection;
    a_cancelled_disconnect_still_publishes_offline;
    a_cancelled_connection_loss_keeps_the_grace_period;
    heartbeats_of_a_cancelled_flush_are_written_by_the_next_flush;
    a_cancelled_watch_delivers_its_users_as_changes;
}

/// Polls a future once and drops it. True if it completed, as on the embedded engine.
async fn poll_once(future: impl Future) -> bool {
    tokio::select! {
        biased;
        _ = future => true,
        () = std::future::ready(()) => false,
    }
}

async fn a_cancelled_connect_counts_as_a_lost_connection(mut fixture: PresenceFixture) {
    if poll_once(fixture.nodes[0].connect(socket_device("alice", "s1"))).await {
        poll_once(fixture.nodes[0].connection_lost(&socket_device("alice", "s1"))).await;
    }
    fixture.run_background_once().await;
    fixture.run_background_once().await;
    fixture.pass(GRACE).await;
    fixture.nodes[0]
        .heartbeat(&socket_device("alice", "s1"))
        .unwrap();
    fixture.run_background_once().await;
    fixture
        .assert_status("alice", PresenceStatus::Offline)
        .await;
    // The node does not register the device again from its memory.
    fixture.advance(GRACE * 3).await;
    fixture.run_background_once().await;
    fixture
        .assert_status("alice", PresenceStatus::Offline)
        .await;
    let news = fixture.drain_event_names().await;
    assert!(
        news.is_empty() || news == ["online alice", "offline alice"],
        "{news:?}"
    );
    assert_eq!(fixture.nodes[0].count().await.unwrap(), 0);
}

async fn a_cancelled_disconnect_still_publishes_offline(mut fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    poll_once(fixture.nodes[0].disconnect(&socket_device("alice", "s1"))).await;
    fixture.run_background_once().await;
    fixture
        .assert_status("alice", PresenceStatus::Offline)
        .await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    fixture.run_background_once().await;
    assert_eq!(fixture.nodes[0].count().await.unwrap(), 0);
}

async fn a_cancelled_connection_loss_keeps_the_grace_period(mut fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    poll_once(fixture.nodes[0].connection_lost(&socket_device("alice", "s1"))).await;
    fixture.run_background_once().await;
    fixture.assert_status("alice", PresenceStatus::Online).await;
    fixture.pass(GRACE).await;
    fixture.run_background_once().await;
    fixture
        .assert_status("alice", PresenceStatus::Offline)
        .await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
}

async fn heartbeats_of_a_cancelled_flush_are_written_by_the_next_flush(
    mut fixture: PresenceFixture,
) {
    fixture.nodes[0]
        .heartbeat(&api_device("alice", "api"))
        .unwrap();
    poll_once(fixture.nodes[0].flush_heartbeats()).await;
    fixture.run_background_once().await;
    fixture.assert_status("alice", PresenceStatus::Online).await;
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
}

async fn a_cancelled_watch_delivers_its_users_as_changes(fixture: PresenceFixture) {
    let node = &fixture.nodes[0];
    let bob = user("bob");
    let same_shard =
        |it: &UserId| WatchShard::for_user(it).number() == WatchShard::for_user(&bob).number();
    let mut users = (0..).map(|at| user(&format!("u{at}"))).filter(same_shard);
    let alice = users.next().unwrap();
    let online = node
        .connect(socket_device(alice.as_str(), "s1"))
        .await
        .unwrap();
    let mut watcher = node.new_watcher();
    // The shard is subscribed already, so that only the read can be cancelled.
    watcher.watch(std::slice::from_ref(&bob)).await.unwrap();
    let mut reported = Vec::new();
    tokio::select! {
        biased;
        now = watcher.watch(std::slice::from_ref(&alice)) => reported = now.unwrap(),
        () = std::future::ready(()) => {}
    }
    node.flush_watchers().await.unwrap();
    reported.extend(watcher.try_next());
    assert_eq!(reported, [online]);
}
