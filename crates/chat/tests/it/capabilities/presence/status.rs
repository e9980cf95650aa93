//! Users set their explicit status.

use std::time::Duration;

use parlor_chat::presence::PresenceStatus;

use super::expected_keys::ExpectedKeys;
use super::fixture::{PresenceFixture, api_device, socket_device, user};
use super::on_every_layout;

on_every_layout! {
    an_invisible_user_is_stored_and_published_as_offline;
    a_disconnect_of_an_invisible_user_publishes_no_event;
    away_and_busy_publish_no_event;
    a_status_ends_with_the_last_device;
    an_expired_user_stays_offline_when_a_status_is_set;
    setting_online_clears_an_explicit_status;
    setting_online_for_the_first_time_publishes_online_once;
    setting_online_does_not_take_a_device_from_its_socket;
}

pub async fn an_invisible_user_is_stored_and_published_as_offline(mut fixture: PresenceFixture) {
    let at = fixture.now();
    let alice = user("alice");
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.pass(Duration::from_secs(1)).await;
    let hidden = fixture.now();
    let seen = fixture.nodes[1]
        .set_status(&alice, PresenceStatus::Offline)
        .await
        .unwrap();
    assert_eq!(seen.status, PresenceStatus::Offline);
    assert_eq!(seen.last_seen, Some(hidden.to_iso8601()));
    fixture.pass(Duration::from_secs(1)).await;
    fixture.nodes[0]
        .heartbeat(&socket_device("alice", "s1"))
        .unwrap();
    fixture.nodes[1]
        .connect(socket_device("alice", "s2"))
        .await
        .unwrap();
    fixture.run_background_once().await;
    let announced = fixture.drain_events().await;
    assert_eq!(
        announced[1..],
        [("offline alice".to_owned(), hidden.as_millis())]
    );
    fixture
        .assert_status("alice", PresenceStatus::Offline)
        .await;
    assert_eq!(fixture.nodes[0].count().await.unwrap(), 1);
    let second = fixture.now();
    let shown = ExpectedKeys::offline("alice", &fixture)
        .device("s1", "n0", at)
        .device("s2", "n1", second)
        .last_heartbeat(second)
        .left(fixture.ttl())
        .socket("s1", fixture.ttl())
        .socket("s2", fixture.ttl())
        .seen(hidden);
    let invisible = shown.clone().hidden_for(Duration::from_secs(1));
    invisible.assert_only_these(&fixture).await;

    fixture.nodes[0]
        .set_status(&alice, PresenceStatus::Online)
        .await
        .unwrap();
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
    fixture.assert_status("alice", PresenceStatus::Online).await;
    let shown = shown.refreshed_at("s1", second);
    shown.assert_only_these(&fixture).await;
}

async fn a_disconnect_of_an_invisible_user_publishes_no_event(mut fixture: PresenceFixture) {
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .connect(socket_device("alice", "s2"))
        .await
        .unwrap();
    let hidden = fixture.now();
    fixture.nodes[0]
        .set_status(&user("alice"), PresenceStatus::Offline)
        .await
        .unwrap();
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    fixture.pass(Duration::from_secs(1)).await;
    fixture.nodes[0]
        .disconnect(&socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .connection_lost(&socket_device("alice", "s2"))
        .await
        .unwrap();
    fixture.pass(Duration::from_secs(6)).await;
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, Vec::<String>::new());
    assert_eq!(
        fixture.status("alice").await.last_seen,
        Some(hidden.to_iso8601())
    );
    let shown = ExpectedKeys::offline("alice", &fixture).seen(hidden);
    let shown = shown.hidden_for(Duration::from_secs(7));
    shown.assert_only_these(&fixture).await;
}

pub async fn away_and_busy_publish_no_event(mut fixture: PresenceFixture) {
    let at = fixture.now();
    let alice = user("alice");
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    let mut version = fixture.status("alice").await.version;
    for status in [PresenceStatus::Away, PresenceStatus::Busy] {
        let seen = fixture.nodes[1].set_status(&alice, status).await.unwrap();
        assert_eq!(seen.status, status);
        assert!(seen.version > version, "{seen:?} after {version}");
        version = seen.version;
        assert_eq!(fixture.status("alice").await, seen);
        let shown = ExpectedKeys::offline("alice", &fixture)
            .device("s1", "n0", at)
            .with_field("s1", "status", status.name())
            .left(fixture.ttl())
            .socket("s1", fixture.ttl());
        shown.assert_only_these(&fixture).await;
        let again = fixture.nodes[0].set_status(&alice, status).await.unwrap();
        assert_eq!(again.version, version, "nothing changed");
    }
    fixture.pass(Duration::from_secs(1)).await;
    fixture.nodes[0]
        .heartbeat(&socket_device("alice", "s1"))
        .unwrap();
    fixture.run_background_once().await;
    fixture.assert_status("alice", PresenceStatus::Busy).await;
    fixture.nodes[0]
        .set_status(&alice, PresenceStatus::Online)
        .await
        .unwrap();
    fixture.assert_status("alice", PresenceStatus::Online).await;
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
    let shown = ExpectedKeys::offline("alice", &fixture)
        .device("s1", "n0", at)
        .refreshed_at("s1", fixture.now())
        .left(fixture.ttl())
        .socket("s1", fixture.ttl());
    shown.assert_only_these(&fixture).await;
}

async fn a_status_ends_with_the_last_device(mut fixture: PresenceFixture) {
    let alice = user("alice");
    let nobody = fixture.nodes[0]
        .set_status(&alice, PresenceStatus::Busy)
        .await
        .unwrap();
    assert_eq!(nobody.status, PresenceStatus::Offline);
    for status in [PresenceStatus::Busy, PresenceStatus::Offline] {
        fixture.nodes[0]
            .connect(socket_device("alice", "s1"))
            .await
            .unwrap();
        fixture.assert_status("alice", PresenceStatus::Online).await;
        fixture.nodes[0].set_status(&alice, status).await.unwrap();
        fixture.nodes[0]
            .disconnect(&socket_device("alice", "s1"))
            .await
            .unwrap();
        fixture
            .assert_status("alice", PresenceStatus::Offline)
            .await;
        assert_eq!(
            fixture.drain_event_names().await,
            ["online alice", "offline alice"]
        );
    }
    // The same if no sweep has removed the expired device yet.
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .set_status(&alice, PresenceStatus::Offline)
        .await
        .unwrap();
    fixture.pass(fixture.ttl()).await;
    fixture.nodes[0]
        .connect(socket_device("alice", "s2"))
        .await
        .unwrap();
    fixture.assert_status("alice", PresenceStatus::Online).await;
}

async fn setting_online_clears_an_explicit_status(mut fixture: PresenceFixture) {
    let alice = user("alice");
    let first = fixture.now();
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    for status in [
        PresenceStatus::Away,
        PresenceStatus::Busy,
        PresenceStatus::Offline,
    ] {
        fixture.nodes[0].set_status(&alice, status).await.unwrap();
        fixture.pass(Duration::from_secs(1)).await;
        let seen = fixture.nodes[1]
            .connect_visible(api_device("alice", "api"))
            .await
            .unwrap();
        assert_eq!(seen.status, PresenceStatus::Online);
        assert_eq!(seen.version, fixture.now().as_millis());
        assert_eq!(fixture.status("alice").await, seen);
    }
    let news = fixture.drain_event_names().await;
    assert_eq!(news, ["online alice", "offline alice", "online alice"]);
    // The previous explicit status does not return.
    fixture.nodes[0]
        .heartbeat(&socket_device("alice", "s1"))
        .unwrap();
    fixture.run_background_once().await;
    let seen = fixture.status("alice").await;
    assert_eq!(seen.status, PresenceStatus::Online);
    let last = fixture.now();
    let shown = ExpectedKeys::offline("alice", &fixture)
        .device("s1", "n0", first)
        .refreshed_at("s1", last)
        .api_device("api", "n1", last)
        .left(fixture.ttl())
        .socket("s1", fixture.ttl());
    shown.assert_only_these(&fixture).await;
}

async fn setting_online_for_the_first_time_publishes_online_once(mut fixture: PresenceFixture) {
    let at = fixture.now();
    fixture.nodes[0]
        .connect_visible(api_device("alice", "api"))
        .await
        .unwrap();
    fixture.nodes[1]
        .connect_visible(api_device("alice", "api"))
        .await
        .unwrap();
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
    let shown = ExpectedKeys::offline("alice", &fixture).api_device("api", "n1", at);
    shown.left(fixture.ttl()).assert_only_these(&fixture).await;
    fixture.nodes[0]
        .disconnect(&api_device("alice", "api"))
        .await
        .unwrap();
    assert_eq!(fixture.drain_event_names().await, ["offline alice"]);
}

/// A request of a device whose socket is open: the socket keeps the device, and the explicit status ends.
async fn setting_online_does_not_take_a_device_from_its_socket(mut fixture: PresenceFixture) {
    let at = fixture.now();
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    let alice = user("alice");
    fixture.nodes[0]
        .set_status(&alice, PresenceStatus::Offline)
        .await
        .unwrap();
    fixture.nodes[1]
        .connect_visible(api_device("alice", "s1"))
        .await
        .unwrap();
    let news = ["online alice", "offline alice", "online alice"];
    assert_eq!(fixture.drain_event_names().await, news);
    let shown = ExpectedKeys::offline("alice", &fixture)
        .device("s1", "n0", at)
        .left(fixture.ttl())
        .socket("s1", fixture.ttl())
        .seen(at);
    shown.assert_only_these(&fixture).await;
}

async fn an_expired_user_stays_offline_when_a_status_is_set(mut fixture: PresenceFixture) {
    let alice = user("alice");
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.nodes[0]
        .set_status(&alice, PresenceStatus::Offline)
        .await
        .unwrap();
    let hidden = fixture.now();
    fixture.pass(fixture.ttl()).await;
    for status in [PresenceStatus::Online, PresenceStatus::Busy] {
        let seen = fixture.nodes[1].set_status(&alice, status).await.unwrap();
        assert_eq!(seen.status, PresenceStatus::Offline);
    }
    fixture.run_background_once().await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    fixture.pass(Duration::from_millis(1)).await;
    let shown = ExpectedKeys::offline("alice", &fixture).seen(hidden);
    shown.assert_only_these(&fixture).await;
}
