//! Connections are lost, and time passes.

use std::time::Duration;

use parlor_chat::presence::PresenceStatus;

use super::expected_keys::ExpectedKeys;
use super::fixture::{GRACE, PresenceFixture, socket_device};
use super::{on_every_engine, on_every_layout};

on_every_layout! {
    a_reconnect_within_the_grace_period_publishes_no_event;
    a_lost_device_is_removed_after_the_grace_period;
    a_heartbeat_in_flight_does_not_keep_a_lost_device;
    a_device_without_heartbeats_expires_once;
    a_connect_before_the_sweep_of_an_expired_device_publishes_no_event;
}

on_every_engine! {
    a_node_that_has_just_started_removes_its_own_lost_connections;
}

pub async fn a_reconnect_within_the_grace_period_publishes_no_event(mut fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .connection_lost(&socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.pass(Duration::from_secs(3)).await;
    fixture.run_background_once().await;
    fixture.assert_status("alice", PresenceStatus::Online).await;
    let at = fixture.now();
    fixture.nodes[1]
        .connect(socket_device("alice", "s2"))
        .await
        .unwrap();
    fixture.pass(Duration::from_secs(3)).await;
    fixture.nodes[1]
        .heartbeat(&socket_device("alice", "s2"))
        .unwrap();
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
    let shown = ExpectedKeys::offline("alice", &fixture)
        .device("s2", "n1", at)
        .refreshed_at("s2", fixture.now())
        .left(fixture.ttl())
        .socket("s2", fixture.ttl());
    shown.assert_only_these(&fixture).await;
}

async fn a_lost_device_is_removed_after_the_grace_period(mut fixture: PresenceFixture) {
    let at = fixture.now();
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .connection_lost(&socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.run_background_once().await;
    let shown = ExpectedKeys::offline("alice", &fixture).device("s1", "n0", at);
    shown.left(GRACE).assert_only_these(&fixture).await;
    fixture.pass(GRACE - Duration::from_millis(1)).await;
    fixture.assert_status("alice", PresenceStatus::Online).await;
    fixture.pass(Duration::from_millis(1)).await;
    fixture
        .assert_status("alice", PresenceStatus::Offline)
        .await;
    fixture.run_background_once().await;
    fixture.run_background_once().await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    let shown = ExpectedKeys::offline("alice", &fixture).seen(fixture.now());
    shown.assert_only_these(&fixture).await;
}

async fn a_heartbeat_in_flight_does_not_keep_a_lost_device(mut fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .heartbeat(&socket_device("alice", "s1"))
        .unwrap();
    let device = socket_device("alice", "s1");
    let (written, lost) = tokio::join!(
        fixture.nodes[0].flush_heartbeats(),
        fixture.nodes[0].connection_lost(&device)
    );
    written.and(lost).unwrap();
    fixture.pass(GRACE).await;
    fixture.run_background_once().await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
}

pub async fn a_device_without_heartbeats_expires_once(mut fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.pass(fixture.ttl() - Duration::from_millis(1)).await;
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
    fixture.assert_status("alice", PresenceStatus::Online).await;
    fixture.pass(Duration::from_millis(1)).await;
    fixture
        .assert_status("alice", PresenceStatus::Offline)
        .await;
    fixture.run_background_once().await;
    fixture.run_background_once().await;
    let announced = fixture.drain_events().await;
    assert_eq!(
        announced,
        [("offline alice".to_owned(), fixture.now().as_millis())]
    );
    assert_eq!(fixture.nodes[0].count().await.unwrap(), 0);
    let shown = ExpectedKeys::offline("alice", &fixture).seen(fixture.now());
    // A key expires after the last millisecond of its TTL.
    fixture.pass(Duration::from_millis(1)).await;
    shown.assert_only_these(&fixture).await;

    // The socket is still open: its next heartbeat registers the device again.
    fixture.nodes[0]
        .heartbeat(&socket_device("alice", "s1"))
        .unwrap();
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
}

async fn a_connect_before_the_sweep_of_an_expired_device_publishes_no_event(
    mut fixture: PresenceFixture,
) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture
        .pass(fixture.ttl() + Duration::from_millis(500))
        .await;
    let at = fixture.now();
    fixture.nodes[1]
        .connect(socket_device("alice", "s2"))
        .await
        .unwrap();
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
    let shown = ExpectedKeys::offline("alice", &fixture).device("s2", "n1", at);
    let shown = shown.left(fixture.ttl()).socket("s2", fixture.ttl());
    shown.assert_only_these(&fixture).await;
}

async fn a_node_that_has_just_started_removes_its_own_lost_connections(
    mut fixture: PresenceFixture,
) {
    let young = fixture.start("n9").await;
    young.connect(socket_device("alice", "s1")).await.unwrap();
    // The other nodes have ended, so no other sweep removes the connection.
    fixture.nodes = vec![young];
    fixture.nodes[0]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    fixture.pass(Duration::from_secs(1)).await;
    fixture.nodes[0]
        .connection_lost(&socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.pass(GRACE - Duration::from_millis(1)).await;
    fixture.run_background_once().await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "online bob"]
    );
    fixture.pass(Duration::from_millis(1)).await;
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, ["offline alice"]);
    fixture.run_background_once().await;
    assert_eq!(fixture.nodes[0].count().await.unwrap(), 2, "until a sweep");
    fixture.assert_status("bob", PresenceStatus::Online).await;
}
