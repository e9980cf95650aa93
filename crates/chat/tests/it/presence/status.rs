//! Users say how they want to be seen.

use std::time::Duration;

use parlor_chat::presence::Status;

use super::on_every_layout;
use super::shown::Shown;
use super::world::{World, api, socket, user};

on_every_layout! {
    an_invisible_user_is_shown_and_announced_as_offline;
    a_goodbye_of_an_invisible_user_is_silent;
    away_and_busy_are_not_announced_to_services;
    a_status_ends_with_the_last_device;
    a_lapsed_user_cannot_change_how_they_are_seen;
    one_who_appears_is_seen_whatever_they_said_before;
    one_who_appears_for_the_first_time_is_announced_once;
    appearing_does_not_take_a_device_from_its_socket;
}

pub async fn an_invisible_user_is_shown_and_announced_as_offline(mut world: World) {
    let at = world.now();
    let alice = user("alice");
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.pass(Duration::from_secs(1)).await;
    let hidden = world.now();
    let seen = world.nodes[1].set(&alice, Status::Offline).await.unwrap();
    assert_eq!(seen.status, Status::Offline);
    assert_eq!(seen.last_seen, Some(hidden.iso()));
    world.pass(Duration::from_secs(1)).await;
    world.nodes[0].beat(&socket("alice", "s1")).unwrap();
    world.nodes[1].connect(socket("alice", "s2")).await.unwrap();
    world.tick().await;
    let announced = world.announced().await;
    assert_eq!(announced[1..], [("offline alice".to_owned(), hidden.ms())]);
    world.is("alice", Status::Offline).await;
    assert_eq!(world.nodes[0].count().await.unwrap(), 1);
    let second = world.now();
    let shown = Shown::nobody("alice", &world)
        .device("s1", "n0", at)
        .device("s2", "n1", second)
        .beaten(second)
        .left(world.ttl())
        .socket("s1", world.ttl())
        .socket("s2", world.ttl())
        .seen(hidden);
    let invisible = shown.clone().invisible(Duration::from_secs(1));
    invisible.must_be_all(&world).await;

    world.nodes[0].set(&alice, Status::Online).await.unwrap();
    assert_eq!(world.news().await, ["online alice"]);
    world.is("alice", Status::Online).await;
    let shown = shown.refreshed("s1", second);
    shown.must_be_all(&world).await;
}

async fn a_goodbye_of_an_invisible_user_is_silent(mut world: World) {
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.nodes[0].connect(socket("alice", "s2")).await.unwrap();
    let hidden = world.now();
    world.nodes[0]
        .set(&user("alice"), Status::Offline)
        .await
        .unwrap();
    assert_eq!(world.news().await, ["online alice", "offline alice"]);
    world.pass(Duration::from_secs(1)).await;
    world.nodes[0].leave(&socket("alice", "s1")).await.unwrap();
    world.nodes[0].lose(&socket("alice", "s2")).await.unwrap();
    world.pass(Duration::from_secs(6)).await;
    world.tick().await;
    assert_eq!(world.news().await, Vec::<String>::new());
    assert_eq!(world.status("alice").await.last_seen, Some(hidden.iso()));
    let shown = Shown::nobody("alice", &world).seen(hidden);
    shown.must_be_all(&world).await;
}

pub async fn away_and_busy_are_not_announced_to_services(mut world: World) {
    let at = world.now();
    let alice = user("alice");
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    let mut version = world.status("alice").await.version;
    for status in [Status::Away, Status::Busy] {
        let seen = world.nodes[1].set(&alice, status).await.unwrap();
        assert_eq!(seen.status, status);
        assert!(seen.version > version, "{seen:?} after {version}");
        version = seen.version;
        assert_eq!(world.status("alice").await, seen);
        let shown = Shown::nobody("alice", &world)
            .device("s1", "n0", at)
            .extra("s1", "status", status.name())
            .left(world.ttl())
            .socket("s1", world.ttl());
        shown.must_be_all(&world).await;
        let again = world.nodes[0].set(&alice, status).await.unwrap();
        assert_eq!(again.version, version, "nothing changed");
    }
    world.pass(Duration::from_secs(1)).await;
    world.nodes[0].beat(&socket("alice", "s1")).unwrap();
    world.tick().await;
    world.is("alice", Status::Busy).await;
    world.nodes[0].set(&alice, Status::Online).await.unwrap();
    world.is("alice", Status::Online).await;
    assert_eq!(world.news().await, ["online alice"]);
    let shown = Shown::nobody("alice", &world)
        .device("s1", "n0", at)
        .refreshed("s1", world.now())
        .left(world.ttl())
        .socket("s1", world.ttl());
    shown.must_be_all(&world).await;
}

async fn a_status_ends_with_the_last_device(mut world: World) {
    let alice = user("alice");
    let nobody = world.nodes[0].set(&alice, Status::Busy).await.unwrap();
    assert_eq!(nobody.status, Status::Offline);
    for status in [Status::Busy, Status::Offline] {
        world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
        world.is("alice", Status::Online).await;
        world.nodes[0].set(&alice, status).await.unwrap();
        world.nodes[0].leave(&socket("alice", "s1")).await.unwrap();
        world.is("alice", Status::Offline).await;
        assert_eq!(world.news().await, ["online alice", "offline alice"]);
    }
    // Also when nobody has looked at the lapsed one.
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.nodes[0].set(&alice, Status::Offline).await.unwrap();
    world.pass(world.ttl()).await;
    world.nodes[0].connect(socket("alice", "s2")).await.unwrap();
    world.is("alice", Status::Online).await;
}

async fn one_who_appears_is_seen_whatever_they_said_before(mut world: World) {
    let alice = user("alice");
    let first = world.now();
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    for status in [Status::Away, Status::Busy, Status::Offline] {
        world.nodes[0].set(&alice, status).await.unwrap();
        world.pass(Duration::from_secs(1)).await;
        let seen = world.nodes[1].appear(api("alice", "api")).await.unwrap();
        assert_eq!(seen.status, Status::Online);
        assert_eq!(seen.version, world.now().ms());
        assert_eq!(world.status("alice").await, seen);
    }
    let news = world.news().await;
    assert_eq!(news, ["online alice", "offline alice", "online alice"]);
    // What it was before does not come back.
    world.nodes[0].beat(&socket("alice", "s1")).unwrap();
    world.tick().await;
    let seen = world.status("alice").await;
    assert_eq!(seen.status, Status::Online);
    let last = world.now();
    let shown = Shown::nobody("alice", &world)
        .device("s1", "n0", first)
        .refreshed("s1", last)
        .device("api", "n1", last)
        .left(world.ttl())
        .socket("s1", world.ttl())
        .seen_at(seen.last_seen.unwrap());
    shown.must_be_all(&world).await;
}

async fn one_who_appears_for_the_first_time_is_announced_once(mut world: World) {
    let at = world.now();
    world.nodes[0].appear(api("alice", "api")).await.unwrap();
    world.nodes[1].appear(api("alice", "api")).await.unwrap();
    assert_eq!(world.news().await, ["online alice"]);
    let shown = Shown::nobody("alice", &world).device("api", "n1", at);
    shown.left(world.ttl()).must_be_all(&world).await;
    world.nodes[0].leave(&api("alice", "api")).await.unwrap();
    assert_eq!(world.news().await, ["offline alice"]);
}

/// A request of a device whose socket lives: the socket keeps it, the status ends all the same.
async fn appearing_does_not_take_a_device_from_its_socket(mut world: World) {
    let at = world.now();
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    let alice = user("alice");
    world.nodes[0].set(&alice, Status::Offline).await.unwrap();
    world.nodes[1].appear(api("alice", "s1")).await.unwrap();
    let news = ["online alice", "offline alice", "online alice"];
    assert_eq!(world.news().await, news);
    let shown = Shown::nobody("alice", &world)
        .device("s1", "n0", at)
        .left(world.ttl())
        .socket("s1", world.ttl())
        .seen(at);
    shown.must_be_all(&world).await;
}

async fn a_lapsed_user_cannot_change_how_they_are_seen(mut world: World) {
    let alice = user("alice");
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.nodes[0].set(&alice, Status::Offline).await.unwrap();
    let hidden = world.now();
    world.pass(world.ttl()).await;
    for status in [Status::Online, Status::Busy] {
        let seen = world.nodes[1].set(&alice, status).await.unwrap();
        assert_eq!(seen.status, Status::Offline);
    }
    world.tick().await;
    assert_eq!(world.news().await, ["online alice", "offline alice"]);
    world.pass(Duration::from_millis(1)).await;
    let shown = Shown::nobody("alice", &world).seen(hidden);
    shown.must_be_all(&world).await;
}
