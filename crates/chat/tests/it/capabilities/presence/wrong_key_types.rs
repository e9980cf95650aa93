//! Keys of a foreign type.

use std::time::Duration;

use parlor_chat::api::error::Error;
use parlor_chat::keys::{Key, PresenceLayout};
use parlor_chat::presence::PresenceStatus;

use super::expected_keys::{ExpectedKeys, assert_store_holds_exactly};
use super::fixture::{GRACE, PresenceFixture, socket_device, user};
use super::{on_every_engine, on_every_layout};

on_every_layout! {
    keys_of_a_foreign_type_stay_as_they_are;
}

on_every_engine! {
    a_state_that_cannot_be_read_does_not_delay_other_users;
    a_device_of_another_version_is_registered_again;
}

/// Replaces a key of presence by a list.
async fn replace_with_list(fixture: &PresenceFixture, key: Key) {
    let mut pipe = redis::pipe();
    pipe.cmd("DEL").arg(&key).cmd("RPUSH").arg(&key).arg("x");
    pipe.exec_async(&mut fixture.store.clone()).await.unwrap();
}

fn layout_keys(fixture: &PresenceFixture, who: &str) -> Vec<Key> {
    let (who, keys) = (user(who), &fixture.keys);
    match fixture.layout {
        PresenceLayout::Devices => vec![keys.presence_devices(&who)],
        PresenceLayout::Document => vec![keys.presence_document(&who)],
        PresenceLayout::Sockets => vec![keys.presence_online(&who), keys.presence_sockets(&who)],
        PresenceLayout::Status => vec![keys.presence_status(&who)],
    }
}

async fn replace_all_with_lists(fixture: &PresenceFixture, who: &str) {
    for name in layout_keys(fixture, who) {
        replace_with_list(fixture, name).await;
    }
}

async fn keys_of_a_foreign_type_stay_as_they_are(mut fixture: PresenceFixture) {
    replace_all_with_lists(&fixture, "alice").await;
    replace_with_list(&fixture, fixture.keys.last_seen(&user("alice"))).await;
    let phone = socket_device("alice", "s1");
    fixture.nodes[0].connect(phone.clone()).await.unwrap();
    fixture.assert_status("alice", PresenceStatus::Online).await;
    fixture.nodes[0].heartbeat(&phone).unwrap();
    fixture.run_background_once().await;
    let away = fixture.nodes[1]
        .set_status(&user("alice"), PresenceStatus::Away)
        .await
        .unwrap();
    assert_eq!(fixture.status("alice").await, away);
    fixture.nodes[0].disconnect(&phone).await.unwrap();
    fixture.run_background_once().await;
    fixture
        .assert_status("alice", PresenceStatus::Offline)
        .await;
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    for name in layout_keys(&fixture, "alice") {
        let mut list = redis::cmd("LRANGE");
        list.arg(&name).arg(0).arg(-1);
        let list: Vec<String> = list.query_async(&mut fixture.store.clone()).await.unwrap();
        assert_eq!(list, ["x"], "{name}");
    }
}

async fn a_state_that_cannot_be_read_does_not_delay_other_users(mut fixture: PresenceFixture) {
    for who in ["alice", "bob", "carol"] {
        let device = socket_device(who, &format!("s-{who}"));
        fixture.nodes[0].connect(device).await.unwrap();
    }
    let state = |who| fixture.keys.presence_state(&user(who));
    replace_with_list(&fixture, state("bob")).await;
    // Alice's state is lost. Her node must notice it by the reply to a heartbeat in the same pipeline as Bob's.
    let mut lose = redis::cmd("DEL");
    lose.arg(state("alice"));
    lose.exec_async(&mut fixture.store.clone()).await.unwrap();
    for who in ["alice", "bob", "carol"] {
        let device = socket_device(who, &format!("s-{who}"));
        fixture.nodes[0].heartbeat(&device).unwrap();
    }
    fixture.run_background_once().await;
    fixture.assert_status("alice", PresenceStatus::Online).await;
    fixture.assert_status("carol", PresenceStatus::Online).await;

    // The key also does not disturb registrations, checks and departures of other users.
    let refused = fixture.nodes[1].connect(socket_device("bob", "s-1")).await;
    assert!(
        matches!(refused, Err(Error::StoreRejected(_))),
        "{refused:?}"
    );
    fixture.advance(GRACE * 3).await;
    fixture.run_background_once().await;
    fixture.pass(GRACE * 2).await;
    fixture.nodes[0]
        .connection_lost(&socket_device("carol", "s-carol"))
        .await
        .unwrap();
    fixture.pass(fixture.ttl()).await;
    fixture.run_background_once().await;
    fixture.run_background_once().await;
    let news = fixture.drain_event_names().await;
    assert_eq!(news.len(), 5, "{news:?}");
    assert!(news[3..].contains(&"offline alice".to_owned()), "{news:?}");
    assert!(news[3..].contains(&"offline carol".to_owned()), "{news:?}");
    assert_eq!(
        fixture.nodes[0].count().await.unwrap(),
        1,
        "bob is checked again"
    );
}

async fn a_device_of_another_version_is_registered_again(mut fixture: PresenceFixture) {
    let at = fixture.now();
    fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    let mut other = redis::cmd("HSET");
    other.arg(fixture.keys.presence_state(&user("alice")));
    other.arg("d:s1").arg("2/n0/unknown");
    other.exec_async(&mut fixture.store.clone()).await.unwrap();
    fixture.pass(Duration::from_secs(1)).await;
    fixture.nodes[0]
        .heartbeat(&socket_device("alice", "s1"))
        .unwrap();
    fixture.run_background_once().await;
    assert_eq!(fixture.drain_event_names().await, ["online alice"]);
    let alice = ExpectedKeys::offline("alice", &fixture)
        .device("s1", "n0", at)
        .refreshed_at("s1", fixture.now())
        .left(fixture.ttl())
        .socket("s1", fixture.ttl());
    assert_store_holds_exactly(&fixture, &[alice]).await;
}
