//! Devices come, beat and say goodbye.

use std::time::Duration;

use parlor_chat::ids::DeviceId;
use parlor_chat::presence::{Device, Status};

use super::on_every_layout;
use super::shown::Shown;
use super::world::{World, api, socket, user};

on_every_layout! {
    a_first_device_is_announced_once;
    a_second_device_is_shown_and_not_announced;
    one_of_two_devices_leaves_in_silence;
    the_last_device_to_leave_is_announced_once;
    a_beat_renews_and_keeps_what_it_does_not_know;
    a_device_of_a_request_lives_by_its_beats;
    a_request_does_not_take_a_device_from_its_socket;
    a_removed_device_is_not_brought_back_by_its_beat;
}

pub async fn a_first_device_is_announced_once(mut world: World) {
    let at = world.now();
    let seen = world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    assert_eq!(seen.status, Status::Online);
    assert_eq!(seen.version, at.ms());
    assert_eq!(seen.last_seen, None);
    assert_eq!(
        world.announced().await,
        [("online alice".to_owned(), at.ms())]
    );
    assert_eq!(world.status("alice").await, seen);
    assert_eq!(world.nodes[1].count().await.unwrap(), 1);
    let shown = Shown::nobody("alice", &world).device("s1", "n0", at);
    let shown = shown.left(world.ttl()).socket("s1", world.ttl());
    shown.must_be_all(&world).await;
}

pub async fn a_second_device_is_shown_and_not_announced(mut world: World) {
    let first = world.now();
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.pass(Duration::from_secs(2)).await;
    let second = world.now();
    let phone = Device {
        info: Some("a \"phone\"".to_owned()),
        ..socket("alice", "s2")
    };
    world.nodes[1].connect(phone).await.unwrap();
    assert_eq!(world.news().await, ["online alice"]);
    assert_eq!(world.nodes[0].count().await.unwrap(), 1);
    let devices = world.nodes[0].devices(&user("alice")).await.unwrap();
    let devices: Vec<_> = devices
        .iter()
        .map(|it| {
            (
                it.device_id.as_str(),
                it.server_id.as_str(),
                it.device.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        devices,
        [("s1", "n0", None), ("s2", "n1", Some("a \"phone\""))]
    );
    let shown = Shown::nobody("alice", &world)
        .device("s1", "n0", first)
        .device("s2", "n1", second)
        .extra("s2", "device", "a \"phone\"")
        .beaten(second)
        .left(world.ttl())
        .socket("s1", world.ttl() - Duration::from_secs(2))
        .socket("s2", world.ttl());
    shown.must_be_all(&world).await;
}

pub async fn one_of_two_devices_leaves_in_silence(mut world: World) {
    let at = world.now();
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.nodes[1].connect(socket("alice", "s2")).await.unwrap();
    world.nodes[1].leave(&socket("alice", "s2")).await.unwrap();
    world.tick().await;
    assert_eq!(world.news().await, ["online alice"]);
    world.is("alice", Status::Online).await;
    let shown = Shown::nobody("alice", &world).device("s1", "n0", at);
    let shown = shown.left(world.ttl()).socket("s1", world.ttl());
    shown.must_be_all(&world).await;
}

pub async fn the_last_device_to_leave_is_announced_once(mut world: World) {
    let online = world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.pass(Duration::from_secs(2)).await;
    let gone = world.now();
    world.nodes[0].beat(&socket("alice", "s1")).unwrap();
    world.nodes[0].leave(&socket("alice", "s1")).await.unwrap();
    world.nodes[0].leave(&socket("alice", "s1")).await.unwrap();
    world.nodes[0].beat(&socket("alice", "s1")).unwrap();
    world.tick().await;
    let announced = world.announced().await;
    assert_eq!(announced[0], ("online alice".to_owned(), online.version));
    assert_eq!(announced[1], ("offline alice".to_owned(), gone.ms()));
    assert_eq!(announced.len(), 2);
    let seen = world.status("alice").await;
    assert_eq!(seen.status, Status::Offline);
    assert_eq!(seen.last_seen, Some(gone.iso()));
    assert_eq!(world.nodes[0].count().await.unwrap(), 0);
    let shown = Shown::nobody("alice", &world).seen(gone);
    shown.must_be_all(&world).await;
}

async fn a_beat_renews_and_keeps_what_it_does_not_know(mut world: World) {
    let at = world.now();
    let device = Device {
        info: Some("phone".to_owned()),
        ..socket("alice", "s1")
    };
    world.nodes[0].connect(device.clone()).await.unwrap();
    world.nodes[1].connect(socket("alice", "s2")).await.unwrap();
    let half = world.ttl() / 2;
    world.pass(half).await;
    world.nodes[0].beat(&device).unwrap();
    world.nodes[0].beat(&device).unwrap();
    world.nodes[0].flush_beats().await.unwrap();
    let beaten = world.now();
    let shown = Shown::nobody("alice", &world)
        .device("s1", "n0", at)
        .refreshed("s1", beaten)
        .extra("s1", "device", "phone")
        .beaten(beaten)
        .left(world.ttl())
        .socket("s1", world.ttl());
    let both = shown.clone().device("s2", "n1", at);
    both.socket("s2", half).must_be_all(&world).await;

    // The other one lapses; the next beat takes it out.
    world.pass(half + Duration::from_millis(1)).await;
    world.nodes[0].beat(&device).unwrap();
    world.nodes[0].flush_beats().await.unwrap();
    let shown = shown.refreshed("s1", world.now()).beaten(world.now());
    shown.must_be_all(&world).await;
    assert_eq!(world.news().await, ["online alice"]);
}

async fn a_device_of_a_request_lives_by_its_beats(mut world: World) {
    let at = world.now();
    world.nodes[0].beat(&api("alice", "api")).unwrap();
    world.tick().await;
    // Any node takes the next one, and the death of the first means nothing.
    world.pass(Duration::from_secs(2)).await;
    world.nodes.remove(0);
    world.nodes[0].beat(&api("alice", "api")).unwrap();
    world.tick().await;
    let beaten = world.now();
    let shown = Shown::nobody("alice", &world)
        .device("api", "n0", at)
        .refreshed("api", beaten)
        .beaten(beaten)
        .left(world.ttl());
    shown.must_be_all(&world).await;
    world.pass(Duration::from_secs(16)).await;
    world.tick().await;
    assert_eq!(world.news().await, ["online alice"]);
    world.pass(world.ttl()).await;
    world.tick().await;
    assert_eq!(world.news().await, ["offline alice"]);
}

async fn a_request_does_not_take_a_device_from_its_socket(mut world: World) {
    let at = world.now();
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.pass(Duration::from_secs(1)).await;
    world.nodes[1].connect(api("alice", "s1")).await.unwrap();
    world.nodes[1].beat(&api("alice", "s1")).unwrap();
    world.tick().await;
    let shown = Shown::nobody("alice", &world)
        .device("s1", "n0", at)
        .refreshed("s1", world.now())
        .left(world.ttl())
        .socket("s1", world.ttl() - Duration::from_secs(1));
    shown.must_be_all(&world).await;
    world.nodes[1].leave(&api("alice", "s1")).await.unwrap();
    world.is("alice", Status::Online).await;
    world.nodes[0].leave(&socket("alice", "s1")).await.unwrap();
    assert_eq!(world.news().await, ["online alice", "offline alice"]);
}

async fn a_removed_device_is_not_brought_back_by_its_beat(mut world: World) {
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.nodes[0].beat(&api("alice", "api")).unwrap();
    world.nodes[0].flush_beats().await.unwrap();
    for id in ["s1", "api"] {
        world.nodes[0].beat(&socket("alice", "s1")).unwrap();
        world.nodes[0].beat(&api("alice", "api")).unwrap();
        let id = DeviceId::new(id).unwrap();
        world.nodes[0].remove(&user("alice"), &id).await.unwrap();
        world.tick().await;
    }
    world.tick().await;
    assert_eq!(world.news().await, ["online alice", "offline alice"]);
    let shown = Shown::nobody("alice", &world).seen(world.now());
    shown.must_be_all(&world).await;
}
