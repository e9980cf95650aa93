//! Devices that are removed by a request, not by their own socket.

use std::time::Duration;

use parlor_chat::api::error::Error;
use parlor_chat::ids::{DeviceId, SocketId};
use parlor_chat::presence::{Device, MAX_DEVICES_PER_USER, Presence, PresenceStatus};
use parlor_testkit::eventually;

use super::expected_keys::ExpectedKeys;
use super::fixture::{GRACE, LEASE, PresenceFixture, api_device, socket_device, tab_of, user};
use super::{on_every_engine, on_every_layout};

on_every_layout! {
    a_device_removed_on_another_node_stays_removed;
    a_disconnect_on_another_node_wins_over_pending_heartbeats;
}

on_every_engine! {
    a_removed_device_stays_removed_when_its_node_registers_all_devices_again;
    a_removed_device_can_connect_again;
    a_device_that_connects_in_the_millisecond_of_its_removal_stays;
    a_user_has_a_bounded_number_of_tombstones;
    a_socket_removed_on_another_node_is_closed_promptly;
    a_disconnect_of_an_unknown_user_wins_over_an_earlier_heartbeat;
    a_later_heartbeat_registers_a_device_that_disconnected;
    a_user_has_a_bounded_number_of_devices;
    removing_a_device_closes_all_its_sockets;
}

const ONE_MS: Duration = Duration::from_millis(1);

/// Removes a device of Alice. Returns her status afterwards.
async fn remove(node: &Presence, device: &str) -> PresenceStatus {
    let id = DeviceId::new(device).unwrap();
    node.remove_device(&user("alice"), &id)
        .await
        .unwrap()
        .status
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

pub async fn a_device_removed_on_another_node_stays_removed(mut fixture: PresenceFixture) {
    let at = fixture.now();
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .connect(socket_device("alice", "s2"))
        .await
        .unwrap();
    fixture.pass(ONE_MS).await;
    let left = remove(&fixture.nodes[1], "s1").await;
    assert_eq!(left, PresenceStatus::Online);
    for device in ["s1", "s2"] {
        fixture.nodes[0]
            .heartbeat(&socket_device("alice", device))
            .unwrap();
    }
    fixture.run_background_once().await;
    assert_eq!(sockets_to_close(&fixture.nodes[0]).await, ["s1"]);
    let alice = ExpectedKeys::offline("alice", &fixture)
        .device("s2", "n0", at)
        .refreshed_at("s2", fixture.now())
        .left(fixture.ttl())
        .socket("s2", fixture.ttl());
    alice.assert_only_these(&fixture).await;
    // Then the last device; its node also writes the disconnect of the closed socket.
    remove(&fixture.nodes[1], "s2").await;
    let gone = fixture.now();
    fixture.nodes[0]
        .disconnect(&socket_device("alice", "s2"))
        .await
        .unwrap();
    fixture.nodes[0]
        .heartbeat(&socket_device("alice", "s2"))
        .unwrap();
    fixture.run_background_once().await;
    fixture.run_background_once().await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    let alice = ExpectedKeys::offline("alice", &fixture).seen(gone);
    alice.assert_only_these(&fixture).await;
}

async fn a_removed_device_stays_removed_when_its_node_registers_all_devices_again(
    mut fixture: PresenceFixture,
) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .connect(socket_device("bob", "s2"))
        .await
        .unwrap();
    let paused = fixture.nodes.remove(0);
    fixture.pass(ONE_MS).await;
    remove(&fixture.nodes[0], "s1").await;
    fixture.pass(LEASE + GRACE).await;
    fixture.run_background_once().await;
    fixture.nodes.push(paused);
    fixture.run_background_once().await;
    assert_eq!(sockets_to_close(&fixture.nodes[1]).await, ["s1"]);
    fixture
        .assert_status("alice", PresenceStatus::Offline)
        .await;
    fixture.assert_status("bob", PresenceStatus::Online).await;
    let news = fixture.drain_event_names().await;
    assert_eq!(news[2..], ["offline alice", "offline bob", "online bob"]);
}

async fn a_removed_device_can_connect_again(mut fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.pass(ONE_MS).await;
    remove(&fixture.nodes[0], "s1").await;
    assert_eq!(sockets_to_close(&fixture.nodes[0]).await, ["s1"]);
    fixture.nodes[1]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.pass(fixture.ttl() / 2).await;
    fixture.nodes[1]
        .heartbeat(&socket_device("alice", "s1"))
        .unwrap();
    fixture.run_background_once().await;
    fixture.pass(fixture.ttl() / 2 + ONE_MS).await;
    fixture.run_background_once().await;
    fixture.assert_status("alice", PresenceStatus::Online).await;
    assert_eq!(
        sockets_to_close(&fixture.nodes[1]).await,
        Vec::<String>::new()
    );
    let news = ["online alice", "offline alice", "online alice"];
    assert_eq!(fixture.drain_event_names().await, news);
}

async fn a_device_that_connects_in_the_millisecond_of_its_removal_stays(fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    remove(&fixture.nodes[0], "s1").await;
    assert_eq!(sockets_to_close(&fixture.nodes[0]).await, ["s1"]);
    // A socket that connects in the same millisecond stays.
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0].flush_heartbeats().await.unwrap();
    assert_eq!(
        sockets_to_close(&fixture.nodes[0]).await,
        Vec::<String>::new()
    );
}

async fn a_user_has_a_bounded_number_of_tombstones(fixture: PresenceFixture) {
    let fields = async || -> Vec<String> {
        let mut keys = redis::cmd("HKEYS");
        keys.arg(fixture.keys.presence_state(&user("alice")));
        keys.query_async(&mut fixture.store.clone()).await.unwrap()
    };
    for at in 0..50 {
        fixture.pass(ONE_MS).await;
        remove(&fixture.nodes[0], &format!("d{at}")).await;
    }
    let graves: Vec<String> = fields().await;
    let graves: Vec<&String> = graves.iter().filter(|it| it.starts_with("g:")).collect();
    assert_eq!(graves.len(), 16, "{graves:?}");
    assert!(graves.contains(&&"g:d49".to_owned()), "{graves:?}");
    assert!(graves.contains(&&"g:d34".to_owned()), "{graves:?}");
}

async fn a_socket_removed_on_another_node_is_closed_promptly(mut fixture: PresenceFixture) {
    let holder = std::sync::Arc::new(fixture.nodes.remove(0));
    let ticking = holder.start_background_tasks();
    holder.connect(socket_device("alice", "s1")).await.unwrap();
    // Without a heartbeat, as soon as the node has subscribed.
    eventually("the socket is closed", async || {
        fixture.advance(ONE_MS).await;
        remove(&fixture.nodes[0], "s1").await;
        sockets_to_close(&holder).await == ["s1"]
    })
    .await;
    drop(ticking);
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
}

async fn a_disconnect_on_another_node_wins_over_pending_heartbeats(mut fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(api_device("alice", "api"))
        .await
        .unwrap();
    fixture.pass(ONE_MS).await;
    fixture.nodes[0]
        .heartbeat(&api_device("alice", "api"))
        .unwrap();
    fixture.nodes[0]
        .heartbeat(&api_device("alice", "other"))
        .unwrap();
    fixture.nodes[1]
        .disconnect(&api_device("alice", "api"))
        .await
        .unwrap();
    let gone = fixture.now();
    fixture.run_background_once().await;
    fixture.run_background_once().await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    let shown = ExpectedKeys::offline("alice", &fixture).seen(gone);
    shown.assert_only_these(&fixture).await;
}

async fn a_disconnect_of_an_unknown_user_wins_over_an_earlier_heartbeat(
    mut fixture: PresenceFixture,
) {
    fixture.nodes[0]
        .heartbeat(&api_device("alice", "api"))
        .unwrap();
    fixture.nodes[1]
        .disconnect(&api_device("alice", "api"))
        .await
        .unwrap();
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, Vec::<String>::new());
    fixture
        .assert_status("alice", PresenceStatus::Offline)
        .await;
}

async fn a_later_heartbeat_registers_a_device_that_disconnected(mut fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(api_device("alice", "api"))
        .await
        .unwrap();
    fixture.nodes[1]
        .disconnect(&api_device("alice", "api"))
        .await
        .unwrap();
    fixture.pass(ONE_MS).await;
    fixture.nodes[0]
        .heartbeat(&api_device("alice", "api"))
        .unwrap();
    fixture.run_background_once().await;
    let news = ["online alice", "offline alice", "online alice"];
    assert_eq!(fixture.drain_event_names().await, news);
}

async fn a_user_has_a_bounded_number_of_devices(mut fixture: PresenceFixture) {
    for at in 0..MAX_DEVICES_PER_USER {
        let device = api_device("alice", &format!("d{at}"));
        fixture.nodes[at % 2].connect(device).await.unwrap();
    }
    for device in [
        api_device("alice", "one-more"),
        socket_device("alice", "s1"),
    ] {
        let refused = fixture.nodes[0].connect(device.clone()).await.unwrap_err();
        assert!(matches!(refused, Error::TooMany { .. }), "{refused}");
        fixture.nodes[0].heartbeat(&device).unwrap();
    }
    // A device that is registered already may take a new socket.
    let again = Device {
        socket: Some(SocketId::new("s2").unwrap()),
        ..api_device("alice", "d0")
    };
    fixture.nodes[1].connect(again).await.unwrap();
    fixture.run_background_once().await;
    let devices = fixture.nodes[0].devices(&user("alice")).await.unwrap();
    assert_eq!(devices.len(), MAX_DEVICES_PER_USER);
    assert_eq!(
        sockets_to_close(&fixture.nodes[0]).await,
        Vec::<String>::new()
    );
    fixture.nodes[0]
        .disconnect(&api_device("alice", "d1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
}

async fn removing_a_device_closes_all_its_sockets(mut fixture: PresenceFixture) {
    for (node, socket) in [(0, "s1"), (0, "s2"), (1, "s3")] {
        let tab = tab_of("alice", "phone", socket);
        fixture.nodes[node].connect(tab).await.unwrap();
    }
    fixture.pass(ONE_MS).await;
    assert_eq!(
        remove(&fixture.nodes[0], "phone").await,
        PresenceStatus::Offline
    );
    assert_eq!(sockets_to_close(&fixture.nodes[0]).await.len(), 2);
    // The other node learns of it with the next heartbeat.
    fixture.nodes[1]
        .heartbeat(&tab_of("alice", "phone", "s3"))
        .unwrap();
    fixture.run_background_once().await;
    assert_eq!(sockets_to_close(&fixture.nodes[1]).await.len(), 1);
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
}
