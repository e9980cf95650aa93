//! Devices that are ended by somebody else than the one who holds them.

use std::time::Duration;

use parlor_chat::error::Error;
use parlor_chat::ids::{DeviceId, SocketId};
use parlor_chat::presence::{Device, MOST_DEVICES, Presence, Status};
use parlor_testkit::eventually;

use super::shown::Shown;
use super::world::{GRACE, LEASE, World, api, socket, user};
use super::{on_every_engine, on_every_layout};

on_every_layout! {
    a_device_removed_on_another_node_is_not_brought_back;
    a_goodbye_on_another_node_outlives_beats_on_their_way;
}

on_every_engine! {
    a_removed_device_stays_away_when_its_node_registers_everybody_again;
    a_removed_device_may_come_again;
    a_device_removed_in_the_moment_it_came_is_closed;
    removals_are_remembered_in_a_bounded_space;
    a_socket_removed_on_another_node_is_closed_promptly;
    a_goodbye_of_a_user_nobody_knows_yet_outlives_their_first_beat;
    a_later_beat_registers_a_device_that_left;
    a_user_has_a_bounded_number_of_devices;
    a_socket_whose_device_another_one_took_leaves_nothing_behind;
}

const MOMENT: Duration = Duration::from_millis(1);

/// Removes a device of Alice; how she is seen then.
async fn remove(node: &Presence, device: &str) -> Status {
    let id = DeviceId::new(device).unwrap();
    node.remove(&user("alice"), &id).await.unwrap().status
}

/// The sockets that a node was told to close until now.
async fn closed(node: &Presence) -> Vec<String> {
    let mut closed = Vec::new();
    loop {
        tokio::select! {
            biased;
            device = node.closed() => closed.push(device.id.to_string()),
            () = std::future::ready(()) => return closed,
        }
    }
}

pub async fn a_device_removed_on_another_node_is_not_brought_back(mut world: World) {
    let at = world.now();
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.nodes[0].connect(socket("alice", "s2")).await.unwrap();
    world.pass(MOMENT).await;
    let left = remove(&world.nodes[1], "s1").await;
    assert_eq!(left, Status::Online);
    for device in ["s1", "s2"] {
        world.nodes[0].beat(&socket("alice", device)).unwrap();
    }
    world.tick().await;
    assert_eq!(closed(&world.nodes[0]).await, ["s1"]);
    let alice = Shown::nobody("alice", &world)
        .device("s2", "n0", at)
        .refreshed("s2", world.now())
        .left(world.ttl())
        .socket("s2", world.ttl());
    alice.must_be_all(&world).await;
    // The last one, too; and its node says goodbye as it is closed.
    remove(&world.nodes[1], "s2").await;
    let gone = world.now();
    world.nodes[0].leave(&socket("alice", "s2")).await.unwrap();
    world.nodes[0].beat(&socket("alice", "s2")).unwrap();
    world.tick().await;
    world.tick().await;
    assert_eq!(world.news().await, ["online alice", "offline alice"]);
    let alice = Shown::nobody("alice", &world).seen(gone);
    alice.must_be_all(&world).await;
}

async fn a_removed_device_stays_away_when_its_node_registers_everybody_again(mut world: World) {
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.nodes[0].connect(socket("bob", "s2")).await.unwrap();
    let paused = world.nodes.remove(0);
    world.pass(MOMENT).await;
    remove(&world.nodes[0], "s1").await;
    world.pass(LEASE + GRACE).await;
    world.tick().await;
    world.nodes.push(paused);
    world.tick().await;
    assert_eq!(closed(&world.nodes[1]).await, ["s1"]);
    world.is("alice", Status::Offline).await;
    world.is("bob", Status::Online).await;
    let news = world.news().await;
    assert_eq!(news[2..], ["offline alice", "offline bob", "online bob"]);
}

async fn a_removed_device_may_come_again(mut world: World) {
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.pass(MOMENT).await;
    remove(&world.nodes[0], "s1").await;
    assert_eq!(closed(&world.nodes[0]).await, ["s1"]);
    world.nodes[1].connect(socket("alice", "s1")).await.unwrap();
    world.pass(world.ttl() / 2).await;
    world.nodes[1].beat(&socket("alice", "s1")).unwrap();
    world.tick().await;
    world.pass(world.ttl() / 2 + MOMENT).await;
    world.tick().await;
    world.is("alice", Status::Online).await;
    assert_eq!(closed(&world.nodes[1]).await, Vec::<String>::new());
    let news = ["online alice", "offline alice", "online alice"];
    assert_eq!(world.news().await, news);
}

async fn a_device_removed_in_the_moment_it_came_is_closed(world: World) {
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    remove(&world.nodes[0], "s1").await;
    assert_eq!(closed(&world.nodes[0]).await, ["s1"]);
    // And who comes in the same moment again stays.
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.nodes[0].flush_beats().await.unwrap();
    assert_eq!(closed(&world.nodes[0]).await, Vec::<String>::new());
}

async fn removals_are_remembered_in_a_bounded_space(world: World) {
    let fields = async || -> Vec<String> {
        let mut keys = redis::cmd("HKEYS");
        keys.arg(world.keys.presence_state(&user("alice")));
        keys.query_async(&mut world.store.clone()).await.unwrap()
    };
    for at in 0..50 {
        world.pass(MOMENT).await;
        remove(&world.nodes[0], &format!("d{at}")).await;
    }
    let graves: Vec<String> = fields().await;
    let graves: Vec<&String> = graves.iter().filter(|it| it.starts_with("g:")).collect();
    assert_eq!(graves.len(), 16, "{graves:?}");
    assert!(graves.contains(&&"g:d49".to_owned()), "{graves:?}");
    assert!(graves.contains(&&"g:d34".to_owned()), "{graves:?}");
}

async fn a_socket_removed_on_another_node_is_closed_promptly(mut world: World) {
    let holder = std::sync::Arc::new(world.nodes.remove(0));
    let ticking = holder.tick();
    holder.connect(socket("alice", "s1")).await.unwrap();
    // Without a beat, as soon as the node listens.
    eventually("the socket is closed", async || {
        world.advance(MOMENT).await;
        remove(&world.nodes[0], "s1").await;
        closed(&holder).await == ["s1"]
    })
    .await;
    drop(ticking);
    assert_eq!(world.news().await, ["online alice", "offline alice"]);
}

async fn a_goodbye_on_another_node_outlives_beats_on_their_way(mut world: World) {
    world.nodes[0].connect(api("alice", "api")).await.unwrap();
    world.pass(MOMENT).await;
    world.nodes[0].beat(&api("alice", "api")).unwrap();
    world.nodes[0].beat(&api("alice", "other")).unwrap();
    world.nodes[1].leave(&api("alice", "api")).await.unwrap();
    let gone = world.now();
    world.tick().await;
    world.tick().await;
    assert_eq!(world.news().await, ["online alice", "offline alice"]);
    let shown = Shown::nobody("alice", &world).seen(gone);
    shown.must_be_all(&world).await;
}

async fn a_goodbye_of_a_user_nobody_knows_yet_outlives_their_first_beat(mut world: World) {
    world.nodes[0].beat(&api("alice", "api")).unwrap();
    world.nodes[1].leave(&api("alice", "api")).await.unwrap();
    world.tick().await;
    assert_eq!(world.news().await, Vec::<String>::new());
    world.is("alice", Status::Offline).await;
}

async fn a_later_beat_registers_a_device_that_left(mut world: World) {
    world.nodes[0].connect(api("alice", "api")).await.unwrap();
    world.nodes[1].leave(&api("alice", "api")).await.unwrap();
    world.pass(MOMENT).await;
    world.nodes[0].beat(&api("alice", "api")).unwrap();
    world.tick().await;
    let news = ["online alice", "offline alice", "online alice"];
    assert_eq!(world.news().await, news);
}

async fn a_user_has_a_bounded_number_of_devices(mut world: World) {
    for at in 0..MOST_DEVICES {
        let device = api("alice", &format!("d{at}"));
        world.nodes[at % 2].connect(device).await.unwrap();
    }
    for device in [api("alice", "one-more"), socket("alice", "s1")] {
        let refused = world.nodes[0].connect(device.clone()).await.unwrap_err();
        assert!(matches!(refused, Error::TooMany { .. }), "{refused}");
        world.nodes[0].beat(&device).unwrap();
    }
    // One that is there has its place.
    let again = Device {
        socket: Some(SocketId::new("s2").unwrap()),
        ..api("alice", "d0")
    };
    world.nodes[1].connect(again).await.unwrap();
    world.tick().await;
    let devices = world.nodes[0].devices(&user("alice")).await.unwrap();
    assert_eq!(devices.len(), MOST_DEVICES);
    assert_eq!(closed(&world.nodes[0]).await, Vec::<String>::new());
    world.nodes[0].leave(&api("alice", "d1")).await.unwrap();
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    assert_eq!(world.news().await, ["online alice"]);
}

async fn a_socket_whose_device_another_one_took_leaves_nothing_behind(mut world: World) {
    let on = |socket: &str| Device {
        socket: Some(SocketId::new(socket).unwrap()),
        ..api("alice", "phone")
    };
    world.nodes[0].connect(on("s1")).await.unwrap();
    world.pass(MOMENT).await;
    let at = world.now();
    world.nodes[0].connect(on("s2")).await.unwrap();
    world.nodes[0].lose(&on("s1")).await.unwrap();
    world.tick().await;
    assert_eq!(world.news().await, ["online alice"]);
    let shown = Shown::nobody("alice", &world).device("phone", "n0", at);
    let shown = shown.left(world.ttl()).socket("s2", world.ttl());
    shown.must_be_all(&world).await;
}
