//! Devices connect, send heartbeats and disconnect.

use std::time::Duration;

use parlor_chat::ids::DeviceId;
use parlor_chat::presence::PresenceStatus;

use super::expected_keys::ExpectedKeys;
use super::fixture::{GRACE, PresenceFixture, api_device, socket_device, tab_of, user};
use super::on_every_layout;

on_every_layout! {
    a_first_device_publishes_online_once;
    a_second_device_is_stored_and_publishes_no_event;
    a_second_device_that_disconnects_publishes_no_event;
    the_last_device_that_disconnects_publishes_offline_once;
    a_heartbeat_extends_a_device_and_keeps_its_fields;
    an_api_device_stays_online_by_heartbeats_on_any_node;
    an_api_heartbeat_does_not_take_over_a_socket_device;
    a_heartbeat_does_not_register_a_removed_device;
    two_tabs_with_one_device_id_are_two_entries;
    a_connect_replaces_the_lost_connection_of_its_device;
    a_socket_takes_over_the_device_of_a_request;
    last_seen_follows_connects_heartbeats_and_the_end;
    a_heartbeat_does_not_end_an_explicit_offline;
}

pub async fn a_first_device_publishes_online_once(mut fixture: PresenceFixture) {
    let at = fixture.now();
    let seen = fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    assert_eq!(seen.status, PresenceStatus::Online);
    assert_eq!(seen.version, at.as_millis());
    assert_eq!(seen.last_seen, Some(at.to_iso8601()));
    assert_eq!(
        fixture.drain_events().await,
        [("online alice".to_owned(), at.as_millis())]
    );
    assert_eq!(fixture.status("alice").await, seen);
    assert_eq!(fixture.nodes[1].count().await.unwrap(), 1);
    let shown = ExpectedKeys::offline("alice", &fixture).device("s1", "n0", at);
    let shown = shown.left(fixture.ttl()).socket("s1", fixture.ttl());
    shown.assert_only_these(&fixture).await;
}

pub async fn a_second_device_is_stored_and_publishes_no_event(mut fixture: PresenceFixture) {
    let first = fixture.now();
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.pass(Duration::from_secs(2)).await;
    let second = fixture.now();
    let phone = socket_device("alice", "s2").with_client_info("a \"phone\"");
    fixture.nodes[1].connect(phone).await.unwrap();
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
    assert_eq!(fixture.nodes[0].count().await.unwrap(), 1);
    let devices = fixture.nodes[0].devices(&user("alice")).await.unwrap();
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
    let shown = ExpectedKeys::offline("alice", &fixture)
        .device("s1", "n0", first)
        .device("s2", "n1", second)
        .with_field("s2", "device", "a \"phone\"")
        .last_heartbeat(second)
        .left(fixture.ttl())
        .socket("s1", fixture.ttl() - Duration::from_secs(2))
        .socket("s2", fixture.ttl());
    shown.assert_only_these(&fixture).await;
}

pub async fn a_second_device_that_disconnects_publishes_no_event(mut fixture: PresenceFixture) {
    let at = fixture.now();
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[1]
        .connect(socket_device("alice", "s2"))
        .await
        .unwrap();
    fixture.nodes[1]
        .disconnect(&socket_device("alice", "s2"))
        .await
        .unwrap();
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
    fixture.assert_status("alice", PresenceStatus::Online).await;
    let shown = ExpectedKeys::offline("alice", &fixture).device("s1", "n0", at);
    let shown = shown.left(fixture.ttl()).socket("s1", fixture.ttl());
    shown.assert_only_these(&fixture).await;
}

pub async fn the_last_device_that_disconnects_publishes_offline_once(mut fixture: PresenceFixture) {
    let online = fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.pass(Duration::from_secs(2)).await;
    let gone = fixture.now();
    fixture.nodes[0]
        .heartbeat(&socket_device("alice", "s1"))
        .unwrap();
    fixture.nodes[0]
        .disconnect(&socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .disconnect(&socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .heartbeat(&socket_device("alice", "s1"))
        .unwrap();
    fixture.run_background_once().await;
    let announced = fixture.drain_events().await;
    assert_eq!(announced[0], ("online alice".to_owned(), online.version));
    assert_eq!(announced[1], ("offline alice".to_owned(), gone.as_millis()));
    assert_eq!(announced.len(), 2);
    let seen = fixture.status("alice").await;
    assert_eq!(seen.status, PresenceStatus::Offline);
    assert_eq!(seen.last_seen, Some(gone.to_iso8601()));
    assert_eq!(fixture.nodes[0].count().await.unwrap(), 0);
    let shown = ExpectedKeys::offline("alice", &fixture).seen(gone);
    shown.assert_only_these(&fixture).await;
}

async fn a_heartbeat_extends_a_device_and_keeps_its_fields(mut fixture: PresenceFixture) {
    let at = fixture.now();
    let device = socket_device("alice", "s1").with_client_info("phone");
    fixture.nodes[0].connect(device.clone()).await.unwrap();
    fixture.nodes[1]
        .connect(socket_device("alice", "s2"))
        .await
        .unwrap();
    let half = fixture.ttl() / 2;
    fixture.pass(half).await;
    fixture.nodes[0].heartbeat(&device).unwrap();
    fixture.nodes[0].heartbeat(&device).unwrap();
    fixture.nodes[0].flush_heartbeats().await.unwrap();
    let beaten = fixture.now();
    let shown = ExpectedKeys::offline("alice", &fixture)
        .device("s1", "n0", at)
        .refreshed_at("s1", beaten)
        .with_field("s1", "device", "phone")
        .last_heartbeat(beaten)
        .left(fixture.ttl())
        .socket("s1", fixture.ttl());
    let both = shown.clone().device("s2", "n1", at);
    both.socket("s2", half).assert_only_these(&fixture).await;

    // The other device expires; the next heartbeat removes it.
    fixture.pass(half + Duration::from_millis(1)).await;
    fixture.nodes[0].heartbeat(&device).unwrap();
    fixture.nodes[0].flush_heartbeats().await.unwrap();
    let shown = shown
        .refreshed_at("s1", fixture.now())
        .last_heartbeat(fixture.now());
    shown.assert_only_these(&fixture).await;
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
}

async fn an_api_device_stays_online_by_heartbeats_on_any_node(mut fixture: PresenceFixture) {
    let at = fixture.now();
    fixture.nodes[0]
        .heartbeat(&api_device("alice", "api"))
        .unwrap();
    fixture.run_background_once().await;
    // Any node accepts the next heartbeat, and the end of the first node changes nothing.
    fixture.pass(Duration::from_secs(2)).await;
    fixture.nodes.remove(0);
    fixture.nodes[0]
        .heartbeat(&api_device("alice", "api"))
        .unwrap();
    fixture.run_background_once().await;
    let beaten = fixture.now();
    let shown = ExpectedKeys::offline("alice", &fixture)
        .api_device("api", "n0", at)
        .refreshed_at("api", beaten)
        .last_heartbeat(beaten)
        .left(fixture.ttl());
    shown.assert_only_these(&fixture).await;
    fixture.pass(Duration::from_secs(16)).await;
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
    fixture.pass(fixture.ttl()).await;
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, ["offline alice"]);
}

async fn an_api_heartbeat_does_not_take_over_a_socket_device(mut fixture: PresenceFixture) {
    let at = fixture.now();
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.pass(Duration::from_secs(1)).await;
    fixture.nodes[1]
        .connect(api_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[1]
        .heartbeat(&api_device("alice", "s1"))
        .unwrap();
    fixture.run_background_once().await;
    let shown = ExpectedKeys::offline("alice", &fixture)
        .device("s1", "n0", at)
        .refreshed_at("s1", fixture.now())
        .left(fixture.ttl())
        .socket("s1", fixture.ttl() - Duration::from_secs(1))
        .seen(fixture.now());
    shown.assert_only_these(&fixture).await;
    fixture.nodes[1]
        .disconnect(&api_device("alice", "s1"))
        .await
        .unwrap();
    fixture.assert_status("alice", PresenceStatus::Online).await;
    fixture.nodes[0]
        .disconnect(&socket_device("alice", "s1"))
        .await
        .unwrap();
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
}

async fn a_heartbeat_does_not_register_a_removed_device(mut fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .heartbeat(&api_device("alice", "api"))
        .unwrap();
    fixture.nodes[0].flush_heartbeats().await.unwrap();
    for id in ["s1", "api"] {
        fixture.nodes[0]
            .heartbeat(&socket_device("alice", "s1"))
            .unwrap();
        fixture.nodes[0]
            .heartbeat(&api_device("alice", "api"))
            .unwrap();
        let id = DeviceId::new(id).unwrap();
        fixture.nodes[0]
            .remove_device(&user("alice"), &id)
            .await
            .unwrap();
        fixture.run_background_once().await;
    }
    fixture.run_background_once().await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    let shown = ExpectedKeys::offline("alice", &fixture).seen(fixture.now());
    shown.assert_only_these(&fixture).await;
}

async fn two_tabs_with_one_device_id_are_two_entries(mut fixture: PresenceFixture) {
    let at = fixture.now();
    for (node, socket) in [(0, "s1"), (0, "s2"), (1, "s3")] {
        let tab = tab_of("alice", "laptop", socket);
        fixture.nodes[node].connect(tab).await.unwrap();
    }
    let shown = ExpectedKeys::offline("alice", &fixture)
        .device("s1", "n0", at)
        .device("s2", "n0", at)
        .left(fixture.ttl())
        .socket("s1", fixture.ttl())
        .socket("s2", fixture.ttl());
    let three = shown.clone().device("s3", "n1", at);
    three
        .socket("s3", fixture.ttl())
        .assert_only_these(&fixture)
        .await;
    let devices = fixture.nodes[0].devices(&user("alice")).await.unwrap();
    assert_eq!(devices.len(), 1, "one device: {devices:?}");
    assert_eq!(devices[0].device_id.as_str(), "laptop");
    // Each tab ends alone.
    let third = tab_of("alice", "laptop", "s3");
    fixture.nodes[1].disconnect(&third).await.unwrap();
    shown.assert_only_these(&fixture).await;
    let first = tab_of("alice", "laptop", "s1");
    fixture.nodes[0].disconnect(&first).await.unwrap();
    fixture.assert_status("alice", PresenceStatus::Online).await;
    let second = tab_of("alice", "laptop", "s2");
    fixture.nodes[0].disconnect(&second).await.unwrap();
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
}

async fn a_connect_replaces_the_lost_connection_of_its_device(mut fixture: PresenceFixture) {
    let first = fixture.now();
    for socket in ["s1", "s2"] {
        let tab = tab_of("alice", "phone", socket);
        fixture.nodes[0].connect(tab).await.unwrap();
    }
    let lost = tab_of("alice", "phone", "s1");
    fixture.nodes[0].connection_lost(&lost).await.unwrap();
    fixture.pass(Duration::from_secs(1)).await;
    let at = fixture.now();
    let back = tab_of("alice", "phone", "s3");
    fixture.nodes[1].connect(back).await.unwrap();
    let shown = ExpectedKeys::offline("alice", &fixture)
        .device("s2", "n0", first)
        .device("s3", "n1", at)
        .left(fixture.ttl())
        .last_heartbeat(at)
        .socket("s2", fixture.ttl() - Duration::from_secs(1))
        .socket("s3", fixture.ttl());
    shown.assert_only_these(&fixture).await;
    fixture.pass(GRACE).await;
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
}

async fn a_socket_takes_over_the_device_of_a_request(fixture: PresenceFixture) {
    let phone = api_device("alice", "phone");
    fixture.nodes[0].connect(phone.clone()).await.unwrap();
    let at = fixture.now();
    let tab = tab_of("alice", "phone", "s1");
    fixture.nodes[1].connect(tab.clone()).await.unwrap();
    fixture.nodes[0].heartbeat(&phone).unwrap();
    fixture.run_background_once().await;
    let devices = fixture.nodes[0].devices(&user("alice")).await.unwrap();
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0].server_id.as_str(), "n1");
    assert_eq!(devices[0].connected_at, at.to_iso8601());
    fixture.nodes[1].disconnect(&tab).await.unwrap();
    fixture
        .assert_status("alice", PresenceStatus::Offline)
        .await;
}

async fn last_seen_follows_connects_heartbeats_and_the_end(fixture: PresenceFixture) {
    let key = fixture.keys.last_seen(&user("alice"));
    let last_seen = async || -> Option<String> {
        let mut get = redis::cmd("GET");
        get.arg(&key)
            .query_async(&mut fixture.store.clone())
            .await
            .unwrap()
    };
    let phone = socket_device("alice", "s1");
    fixture.nodes[0].connect(phone.clone()).await.unwrap();
    let mut expected = fixture.now();
    assert_eq!(last_seen().await, Some(expected.to_iso8601()));
    // At most once a minute. A step is shorter than every lifetime of a device.
    for step in 1..=14 {
        fixture.pass(Duration::from_secs(10)).await;
        fixture.nodes[0].heartbeat(&phone).unwrap();
        fixture.run_background_once().await;
        if step % 6 == 0 {
            expected = fixture.now();
        }
        assert_eq!(last_seen().await, Some(expected.to_iso8601()), "{step}");
        let status = fixture.status("alice").await;
        assert_eq!(status.last_seen, Some(expected.to_iso8601()));
    }
    fixture.nodes[0].disconnect(&phone).await.unwrap();
    assert_eq!(last_seen().await, Some(fixture.now().to_iso8601()));
}

async fn a_heartbeat_does_not_end_an_explicit_offline(mut fixture: PresenceFixture) {
    let alice = user("alice");
    let hidden = fixture.nodes[0]
        .set_status(&alice, PresenceStatus::Offline)
        .await
        .unwrap();
    assert_eq!(hidden.status, PresenceStatus::Offline);
    let phone = api_device("alice", "phone");
    fixture.nodes[0].heartbeat(&phone).unwrap();
    fixture.run_background_once().await;
    fixture
        .assert_status("alice", PresenceStatus::Offline)
        .await;
    assert!(fixture.nodes[0].devices(&alice).await.unwrap().is_empty());
    // A connect does.
    fixture.nodes[0].connect(phone.clone()).await.unwrap();
    fixture.assert_status("alice", PresenceStatus::Online).await;
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
    // An explicit `offline` outlives the last device, and another status ends it.
    fixture.nodes[0]
        .set_status(&alice, PresenceStatus::Offline)
        .await
        .unwrap();
    fixture.nodes[0].disconnect(&phone).await.unwrap();
    fixture.pass(Duration::from_secs(1)).await;
    fixture.nodes[0].heartbeat(&phone).unwrap();
    fixture.run_background_once().await;
    assert!(fixture.nodes[0].devices(&alice).await.unwrap().is_empty());
    fixture.nodes[0]
        .set_status(&alice, PresenceStatus::Busy)
        .await
        .unwrap();
    fixture.nodes[0].heartbeat(&phone).unwrap();
    fixture.run_background_once().await;
    fixture.assert_status("alice", PresenceStatus::Online).await;
}
