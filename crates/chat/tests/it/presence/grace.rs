//! Connections are lost, and time passes.

use std::time::Duration;

use parlor_chat::presence::Status;

use super::on_every_layout;
use super::shown::Shown;
use super::world::{GRACE, World, socket};

on_every_layout! {
    a_quick_reconnect_is_not_announced;
    a_lost_device_is_gone_after_the_grace_time;
    a_beat_on_its_way_does_not_save_a_lost_device;
    a_device_that_does_not_beat_lapses_once;
    a_lapsed_user_who_connects_before_anybody_looked_never_went;
}

pub async fn a_quick_reconnect_is_not_announced(mut world: World) {
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.nodes[0].lose(&socket("alice", "s1")).await.unwrap();
    world.pass(Duration::from_secs(3)).await;
    world.tick().await;
    world.is("alice", Status::Online).await;
    let at = world.now();
    world.nodes[1].connect(socket("alice", "s2")).await.unwrap();
    world.pass(Duration::from_secs(3)).await;
    world.nodes[1].beat(&socket("alice", "s2")).unwrap();
    world.tick().await;
    assert_eq!(world.news().await, ["online alice"]);
    let shown = Shown::nobody("alice", &world)
        .device("s2", "n1", at)
        .refreshed("s2", world.now())
        .left(world.ttl())
        .socket("s2", world.ttl());
    shown.must_be_all(&world).await;
}

async fn a_lost_device_is_gone_after_the_grace_time(mut world: World) {
    let at = world.now();
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.nodes[0].lose(&socket("alice", "s1")).await.unwrap();
    world.tick().await;
    let shown = Shown::nobody("alice", &world).device("s1", "n0", at);
    shown.left(GRACE).must_be_all(&world).await;
    world.pass(GRACE - Duration::from_millis(1)).await;
    world.is("alice", Status::Online).await;
    world.pass(Duration::from_millis(1)).await;
    world.is("alice", Status::Offline).await;
    world.tick().await;
    world.tick().await;
    assert_eq!(world.news().await, ["online alice", "offline alice"]);
    let shown = Shown::nobody("alice", &world).seen(world.now());
    shown.must_be_all(&world).await;
}

async fn a_beat_on_its_way_does_not_save_a_lost_device(mut world: World) {
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.nodes[0].beat(&socket("alice", "s1")).unwrap();
    let device = socket("alice", "s1");
    let (written, lost) = tokio::join!(world.nodes[0].flush_beats(), world.nodes[0].lose(&device));
    written.and(lost).unwrap();
    world.pass(GRACE).await;
    world.tick().await;
    assert_eq!(world.news().await, ["online alice", "offline alice"]);
}

pub async fn a_device_that_does_not_beat_lapses_once(mut world: World) {
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.pass(world.ttl() - Duration::from_millis(1)).await;
    world.tick().await;
    assert_eq!(world.news().await, ["online alice"]);
    world.is("alice", Status::Online).await;
    world.pass(Duration::from_millis(1)).await;
    world.is("alice", Status::Offline).await;
    world.tick().await;
    world.tick().await;
    let announced = world.announced().await;
    assert_eq!(announced, [("offline alice".to_owned(), world.now().ms())]);
    assert_eq!(world.nodes[0].count().await.unwrap(), 0);
    let shown = Shown::nobody("alice", &world).seen(world.now());
    // A key goes after the last millisecond of its time.
    world.pass(Duration::from_millis(1)).await;
    shown.must_be_all(&world).await;

    // The socket is still open: its next beat is the user's return.
    world.nodes[0].beat(&socket("alice", "s1")).unwrap();
    world.tick().await;
    assert_eq!(world.news().await, ["online alice"]);
}

async fn a_lapsed_user_who_connects_before_anybody_looked_never_went(mut world: World) {
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.pass(world.ttl() + Duration::from_millis(500)).await;
    let at = world.now();
    world.nodes[1].connect(socket("alice", "s2")).await.unwrap();
    world.tick().await;
    assert_eq!(world.news().await, ["online alice"]);
    let shown = Shown::nobody("alice", &world).device("s2", "n1", at);
    let shown = shown.left(world.ttl()).socket("s2", world.ttl());
    shown.must_be_all(&world).await;
}
