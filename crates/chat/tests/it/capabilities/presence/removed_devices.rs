//! Devices that are removed by a request, not by their own socket.

use std::time::Duration;

use parlor_chat::api::error::Error;
use parlor_chat::ids::{DeviceId, SocketId};
use parlor_chat::presence::{Device, MAX_DEVICES_PER_USER, Presence, PresenceStatus};
use parlor_testkit::eventually;

use super::expected_keys::ExpectedKeys;
use super::fixture::{GRACE, LEASE, World, api_device, socket_device, user};
use super::{on_every_engine, on_every_layout};

on_every_layout! {
    a_device_removed_on_another_node_is_not_brought_back;
    a_leave_on_another_node_wins_over_pending_heartbeats;
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

const ONE_MS: Duration = Duration::from_millis(1);

/// Removes a device of Alice. Returns her status afterwards.
async fn remove(node: &Presence, device: &str) -> PresenceStatus {
    let id = DeviceId::new(device).unwrap();
    node.remove(&user("alice"), &id).await.unwrap().status
}

/// Takes the sockets that the gateway of a node has to close.
async fn sockets_to_close(node: &Presence) -> Vec<String> {
    let mut closed = Vec::new();
    loop {
        tokio::select! {
            biased;
            device = node.next_socket_to_close() => closed.push(device.id.to_string()),
            () = std::future::ready(()) => return closed,
        }
    }
}

pub async fn a_device_removed_on_another_node_is_not_brought_back(mut world: World) {
    let at = world.now();
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    world.nodes[0]
        .connect(socket_device("alice", "s2"))
        .await
        .unwrap();
    world.pass(ONE_MS).await;
    let left = remove(&world.nodes[1], "s1").await;
    assert_eq!(left, PresenceStatus::Online);
    for device in ["s1", "s2"] {
        world.nodes[0]
            .beat(&socket_device("alice", device))
            .unwrap();
    }
    world.run_background_once().await;
    assert_eq!(sockets_to_close(&world.nodes[0]).await, ["s1"]);
    let alice = ExpectedKeys::offline("alice", &world)
        .device("s2", "n0", at)
        .refreshed_at("s2", world.now())
        .left(world.ttl())
        .socket("s2", world.ttl());
    alice.assert_only_these(&world).await;
    // Then the last device; its node also writes the disconnect of the closed socket.
    remove(&world.nodes[1], "s2").await;
    let gone = world.now();
    world.nodes[0]
        .leave(&socket_device("alice", "s2"))
        .await
        .unwrap();
    world.nodes[0].beat(&socket_device("alice", "s2")).unwrap();
    world.run_background_once().await;
    world.run_background_once().await;
    assert_eq!(
        world.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    let alice = ExpectedKeys::offline("alice", &world).seen(gone);
    alice.assert_only_these(&world).await;
}

async fn a_removed_device_stays_away_when_its_node_registers_everybody_again(mut world: World) {
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    world.nodes[0]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    let paused = world.nodes.remove(0);
    world.pass(ONE_MS).await;
    remove(&world.nodes[0], "s1").await;
    world.pass(LEASE + GRACE).await;
    world.run_background_once().await;
    world.nodes.push(paused);
    world.run_background_once().await;
    assert_eq!(sockets_to_close(&world.nodes[1]).await, ["s1"]);
    world.assert_status("alice", PresenceStatus::Offline).await;
    world.assert_status("bob", PresenceStatus::Online).await;
    let news = world.drain_event_names().await;
    assert_eq!(news[2..], ["offline alice", "offline bob", "online bob"]);
}

async fn a_removed_device_may_come_again(mut world: World) {
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    world.pass(ONE_MS).await;
    remove(&world.nodes[0], "s1").await;
    assert_eq!(sockets_to_close(&world.nodes[0]).await, ["s1"]);
    world.nodes[1]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    world.pass(world.ttl() / 2).await;
    world.nodes[1].beat(&socket_device("alice", "s1")).unwrap();
    world.run_background_once().await;
    world.pass(world.ttl() / 2 + ONE_MS).await;
    world.run_background_once().await;
    world.assert_status("alice", PresenceStatus::Online).await;
    assert_eq!(
        sockets_to_close(&world.nodes[1]).await,
        Vec::<String>::new()
    );
    let news = ["online alice", "offline alice", "online alice"];
    assert_eq!(world.drain_event_names().await, news);
}

async fn a_device_removed_in_the_moment_it_came_is_closed(world: World) {
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    remove(&world.nodes[0], "s1").await;
    assert_eq!(sockets_to_close(&world.nodes[0]).await, ["s1"]);
    // A socket that connects in the same millisecond stays.
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    world.nodes[0].flush_heartbeats().await.unwrap();
    assert_eq!(
        sockets_to_close(&world.nodes[0]).await,
        Vec::<String>::new()
    );
}

async fn removals_are_remembered_in_a_bounded_space(world: World) {
    let fields = async || -> Vec<String> {
        let mut keys = redis::cmd("HKEYS");
        keys.arg(world.keys.presence_state(&user("alice")));
        keys.query_async(&mut world.store.clone()).await.unwrap()
    };
    for at in 0..50 {
        world.pass(ONE_MS).await;
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
    holder.connect(socket_device("alice", "s1")).await.unwrap();
    // Without a heartbeat, as soon as the node has subscribed.
    eventually("the socket is closed", async || {
        world.advance(ONE_MS).await;
        remove(&world.nodes[0], "s1").await;
        sockets_to_close(&holder).await == ["s1"]
    })
    .await;
    drop(ticking);
    assert_eq!(
        world.drain_event_names().await,
        ["online alice", "offline alice"]
    );
}

async fn a_leave_on_another_node_wins_over_pending_heartbeats(mut world: World) {
    world.nodes[0]
        .connect(api_device("alice", "api"))
        .await
        .unwrap();
    world.pass(ONE_MS).await;
    world.nodes[0].beat(&api_device("alice", "api")).unwrap();
    world.nodes[0].beat(&api_device("alice", "other")).unwrap();
    world.nodes[1]
        .leave(&api_device("alice", "api"))
        .await
        .unwrap();
    let gone = world.now();
    world.run_background_once().await;
    world.run_background_once().await;
    assert_eq!(
        world.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    let shown = ExpectedKeys::offline("alice", &world).seen(gone);
    shown.assert_only_these(&world).await;
}

async fn a_goodbye_of_a_user_nobody_knows_yet_outlives_their_first_beat(mut world: World) {
    world.nodes[0].beat(&api_device("alice", "api")).unwrap();
    world.nodes[1]
        .leave(&api_device("alice", "api"))
        .await
        .unwrap();
    world.run_background_once().await;
    assert_eq!(world.drain_event_names().await, Vec::<String>::new());
    world.assert_status("alice", PresenceStatus::Offline).await;
}

async fn a_later_beat_registers_a_device_that_left(mut world: World) {
    world.nodes[0]
        .connect(api_device("alice", "api"))
        .await
        .unwrap();
    world.nodes[1]
        .leave(&api_device("alice", "api"))
        .await
        .unwrap();
    world.pass(ONE_MS).await;
    world.nodes[0].beat(&api_device("alice", "api")).unwrap();
    world.run_background_once().await;
    let news = ["online alice", "offline alice", "online alice"];
    assert_eq!(world.drain_event_names().await, news);
}

async fn a_user_has_a_bounded_number_of_devices(mut world: World) {
    for at in 0..MAX_DEVICES_PER_USER {
        let device = api_device("alice", &format!("d{at}"));
        world.nodes[at % 2].connect(device).await.unwrap();
    }
    for device in [
        api_device("alice", "one-more"),
        socket_device("alice", "s1"),
    ] {
        let refused = world.nodes[0].connect(device.clone()).await.unwrap_err();
        assert!(matches!(refused, Error::TooMany { .. }), "{refused}");
        world.nodes[0].beat(&device).unwrap();
    }
    // A device that is registered already may take a new socket.
    let again = Device {
        socket: Some(SocketId::new("s2").unwrap()),
        ..api_device("alice", "d0")
    };
    world.nodes[1].connect(again).await.unwrap();
    world.run_background_once().await;
    let devices = world.nodes[0].devices(&user("alice")).await.unwrap();
    assert_eq!(devices.len(), MAX_DEVICES_PER_USER);
    assert_eq!(
        sockets_to_close(&world.nodes[0]).await,
        Vec::<String>::new()
    );
    world.nodes[0]
        .leave(&api_device("alice", "d1"))
        .await
        .unwrap();
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    assert_eq!(world.drain_event_names().await, ["online alice"]);
}

async fn a_socket_whose_device_another_one_took_leaves_nothing_behind(mut world: World) {
    let on = |socket: &str| Device {
        socket: Some(SocketId::new(socket).unwrap()),
        ..api_device("alice", "phone")
    };
    world.nodes[0].connect(on("s1")).await.unwrap();
    world.pass(ONE_MS).await;
    let at = world.now();
    world.nodes[0].connect(on("s2")).await.unwrap();
    world.nodes[0].connection_lost(&on("s1")).await.unwrap();
    world.run_background_once().await;
    assert_eq!(world.drain_event_names().await, ["online alice"]);
    let shown = ExpectedKeys::offline("alice", &world).device("phone", "n0", at);
    let shown = shown.left(world.ttl()).socket("s2", world.ttl());
    shown.assert_only_these(&world).await;
}
