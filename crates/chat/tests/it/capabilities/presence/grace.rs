//! Connections are lost, and time passes.

use std::time::Duration;

use parlor_chat::presence::PresenceStatus;

use super::expected_keys::ExpectedKeys;
use super::fixture::{GRACE, World, socket_device};
use super::on_every_layout;

on_every_layout! {
    a_reconnect_within_the_grace_period_publishes_no_event;
    a_lost_device_is_gone_after_the_grace_time;
    a_beat_on_its_way_does_not_save_a_lost_device;
    a_device_that_does_not_beat_lapses_once;
    a_connect_before_the_sweep_of_an_expired_device_publishes_no_event;
}

pub async fn a_reconnect_within_the_grace_period_publishes_no_event(mut world: World) {
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    world.nodes[0]
        .connection_lost(&socket_device("alice", "s1"))
        .await
        .unwrap();
    world.pass(Duration::from_secs(3)).await;
    world.run_background_once().await;
    world.assert_status("alice", PresenceStatus::Online).await;
    let at = world.now();
    world.nodes[1]
        .connect(socket_device("alice", "s2"))
        .await
        .unwrap();
    world.pass(Duration::from_secs(3)).await;
    world.nodes[1].beat(&socket_device("alice", "s2")).unwrap();
    world.run_background_once().await;
    assert_eq!(world.drain_event_names().await, ["online alice"]);
    let shown = ExpectedKeys::offline("alice", &world)
        .device("s2", "n1", at)
        .refreshed_at("s2", world.now())
        .left(world.ttl())
        .socket("s2", world.ttl());
    shown.assert_only_these(&world).await;
}

async fn a_lost_device_is_gone_after_the_grace_time(mut world: World) {
    let at = world.now();
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    world.nodes[0]
        .connection_lost(&socket_device("alice", "s1"))
        .await
        .unwrap();
    world.run_background_once().await;
    let shown = ExpectedKeys::offline("alice", &world).device("s1", "n0", at);
    shown.left(GRACE).assert_only_these(&world).await;
    world.pass(GRACE - Duration::from_millis(1)).await;
    world.assert_status("alice", PresenceStatus::Online).await;
    world.pass(Duration::from_millis(1)).await;
    world.assert_status("alice", PresenceStatus::Offline).await;
    world.run_background_once().await;
    world.run_background_once().await;
    assert_eq!(
        world.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    let shown = ExpectedKeys::offline("alice", &world).seen(world.now());
    shown.assert_only_these(&world).await;
}

async fn a_beat_on_its_way_does_not_save_a_lost_device(mut world: World) {
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    world.nodes[0].beat(&socket_device("alice", "s1")).unwrap();
    let device = socket_device("alice", "s1");
    let (written, lost) = tokio::join!(
        world.nodes[0].flush_heartbeats(),
        world.nodes[0].connection_lost(&device)
    );
    written.and(lost).unwrap();
    world.pass(GRACE).await;
    world.run_background_once().await;
    assert_eq!(
        world.drain_event_names().await,
        ["online alice", "offline alice"]
    );
}

pub async fn a_device_that_does_not_beat_lapses_once(mut world: World) {
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    world.pass(world.ttl() - Duration::from_millis(1)).await;
    world.run_background_once().await;
    assert_eq!(world.drain_event_names().await, ["online alice"]);
    world.assert_status("alice", PresenceStatus::Online).await;
    world.pass(Duration::from_millis(1)).await;
    world.assert_status("alice", PresenceStatus::Offline).await;
    world.run_background_once().await;
    world.run_background_once().await;
    let announced = world.drain_events().await;
    assert_eq!(
        announced,
        [("offline alice".to_owned(), world.now().as_millis())]
    );
    assert_eq!(world.nodes[0].count().await.unwrap(), 0);
    let shown = ExpectedKeys::offline("alice", &world).seen(world.now());
    // A key expires after the last millisecond of its TTL.
    world.pass(Duration::from_millis(1)).await;
    shown.assert_only_these(&world).await;

    // The socket is still open: its next heartbeat registers the device again.
    world.nodes[0].beat(&socket_device("alice", "s1")).unwrap();
    world.run_background_once().await;
    assert_eq!(world.drain_event_names().await, ["online alice"]);
}

async fn a_connect_before_the_sweep_of_an_expired_device_publishes_no_event(mut world: World) {
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    world.pass(world.ttl() + Duration::from_millis(500)).await;
    let at = world.now();
    world.nodes[1]
        .connect(socket_device("alice", "s2"))
        .await
        .unwrap();
    world.run_background_once().await;
    assert_eq!(world.drain_event_names().await, ["online alice"]);
    let shown = ExpectedKeys::offline("alice", &world).device("s2", "n1", at);
    let shown = shown.left(world.ttl()).socket("s2", world.ttl());
    shown.assert_only_these(&world).await;
}
