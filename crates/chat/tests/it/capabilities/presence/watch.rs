//! Watching the status of users.

use parlor_chat::api::error::Error;
use parlor_chat::ids::UserId;
use parlor_chat::keys::PresenceLayout;
use parlor_chat::presence::{
    MAX_WATCHED_USERS, Presence, PresenceStatus, PresenceWatcher, UserStatus,
};
use parlor_testkit::eventually;

use super::fixture::{PresenceFixture, socket_device, user};
use super::on_every_engine;
use crate::support::Fixture;

on_every_engine! {
    a_watcher_gets_the_state_and_then_changes_of_its_users_only;
    only_the_latest_of_many_changes_is_delivered;
    a_dropped_watcher_unsubscribes;
    a_watcher_has_a_bounded_number_of_users;
    a_watcher_that_saw_an_unswept_expiry_gets_the_return_to_online;
    changes_from_before_a_new_watch_are_not_delivered;
}

/// Returns the next changes, after as many flushes as the messages need to arrive.
async fn next_changes(node: &Presence, watcher: &mut PresenceWatcher) -> Vec<UserStatus> {
    let arrived = eventually("a change is delivered", async || {
        node.flush_watchers().await.unwrap();
        let news = watcher.try_next();
        (!news.is_empty()).then_some(news)
    });
    arrived.await
}

async fn a_watcher_gets_the_state_and_then_changes_of_its_users_only(fixture: PresenceFixture) {
    let [here, there] = &fixture.nodes[..] else {
        panic!("two nodes")
    };
    there.connect(socket_device("alice", "s1")).await.unwrap();
    let mut watcher = here.new_watcher();
    let now = watcher.watch(&[user("alice"), user("bob")]).await.unwrap();
    let now: Vec<_> = now
        .iter()
        .map(|it| (it.user_id.as_str(), it.status))
        .collect();
    assert_eq!(
        now,
        [
            ("alice", PresenceStatus::Online),
            ("bob", PresenceStatus::Offline)
        ]
    );

    there.connect(socket_device("carol", "s2")).await.unwrap();
    there.connect(socket_device("bob", "s3")).await.unwrap();
    let news = next_changes(here, &mut watcher).await;
    assert_eq!(news, [there.status(&user("bob")).await.unwrap()]);
    // `away` is a change for watchers.
    there
        .set_status(&user("alice"), PresenceStatus::Away)
        .await
        .unwrap();
    let news = next_changes(here, &mut watcher).await;
    assert_eq!(news, [there.status(&user("alice")).await.unwrap()]);
    there
        .disconnect(&socket_device("alice", "s1"))
        .await
        .unwrap();
    let news = next_changes(here, &mut watcher).await;
    assert_eq!(news, [there.status(&user("alice")).await.unwrap()]);
    assert_eq!(news[0].status, PresenceStatus::Offline);
    assert!(news[0].last_seen.is_some());
}

async fn only_the_latest_of_many_changes_is_delivered(fixture: PresenceFixture) {
    let node = &fixture.nodes[0];
    let mut watcher = node.new_watcher();
    watcher.watch(&[user("alice")]).await.unwrap();
    node.connect(socket_device("alice", "s1")).await.unwrap();
    for status in [
        PresenceStatus::Away,
        PresenceStatus::Busy,
        PresenceStatus::Offline,
        PresenceStatus::Online,
    ] {
        node.set_status(&user("alice"), status).await.unwrap();
    }
    let last = node
        .set_status(&user("alice"), PresenceStatus::Busy)
        .await
        .unwrap();
    let mut versions = Vec::new();
    while versions.last() != Some(&last.version) {
        let news = next_changes(node, &mut watcher).await;
        assert_eq!(news.len(), 1, "one change per user: {news:?}");
        versions.push(news[0].version);
    }
    assert!(versions.is_sorted(), "{versions:?}");
}

#[tokio::test]
async fn changes_published_during_a_lost_connection_are_read() {
    let fixture = PresenceFixture::redis(PresenceLayout::Devices).await;
    let node = &fixture.nodes[0];
    let mut watcher = node.new_watcher();
    watcher.watch(&[user("alice")]).await.unwrap();
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("pubsub");
    let killed: u64 = kill.query_async(&mut fixture.store.clone()).await.unwrap();
    assert!(killed > 0);
    let now = node.connect(socket_device("alice", "s1")).await.unwrap();
    assert_eq!(next_changes(node, &mut watcher).await, [now]);
}

async fn a_dropped_watcher_unsubscribes(fixture: PresenceFixture) {
    let node = &fixture.nodes[0];
    let mut watcher = node.new_watcher();
    watcher.watch(&[user("alice"), user("bob")]).await.unwrap();
    watcher.unwatch(&[user("alice")]);
    node.connect(socket_device("alice", "s1")).await.unwrap();
    node.connect(socket_device("bob", "s2")).await.unwrap();
    let news = next_changes(node, &mut watcher).await;
    assert_eq!(news[0].user_id, user("bob"));
    drop(watcher);
    node.flush_watchers().await.unwrap();
    eventually("all shards are unsubscribed", async || {
        let mut channels = redis::cmd("PUBSUB");
        channels.arg("CHANNELS").arg("parlor:watch:*");
        let channels: redis::RedisResult<Vec<String>> =
            channels.query_async(&mut fixture.store.clone()).await;
        channels.map(|channels| channels.is_empty())
    })
    .await;
}

async fn a_watcher_has_a_bounded_number_of_users(fixture: PresenceFixture) {
    let mut watcher = fixture.nodes[0].new_watcher();
    let users: Vec<UserId> = (0..=MAX_WATCHED_USERS)
        .map(|it| user(&format!("u{it}")))
        .collect();
    let refused = watcher.watch(&users).await.unwrap_err();
    assert!(
        matches!(refused, Error::TooMany { given: 1_001, .. }),
        "{refused}"
    );
    let twice = [&users[..600], &users[..600]].concat();
    assert!(watcher.watch(&twice).await.is_err(), "nor in one call");
    watcher.watch(&users[1..]).await.unwrap();
    assert!(watcher.watch(&users[..1]).await.is_err());
}

/// As after an outage: the deadlines have passed, and no node may expire others yet.
async fn a_watcher_that_saw_an_unswept_expiry_gets_the_return_to_online(
    mut fixture: PresenceFixture,
) {
    let online = fixture.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    fixture.pass(fixture.ttl()).await;
    let mut watcher = fixture.nodes[1].new_watcher();
    let now = watcher.watch(&[user("alice")]).await.unwrap();
    assert_eq!(
        (now[0].status, now[0].version),
        (PresenceStatus::Offline, online.version)
    );
    fixture.nodes[0]
        .heartbeat(&socket_device("alice", "s1"))
        .unwrap();
    fixture.nodes[0].flush_heartbeats().await.unwrap();
    let back = next_changes(&fixture.nodes[1], &mut watcher).await;
    assert_eq!(back[0].status, PresenceStatus::Online);
    assert!(back[0].version > online.version);
    assert_eq!(back, [fixture.status("alice").await]);
    assert_eq!(
        fixture.drain_event_names().await,
        ["online alice"],
        "other services received no offline event"
    );
}

async fn changes_from_before_a_new_watch_are_not_delivered(fixture: PresenceFixture) {
    let node = &fixture.nodes[0];
    let mut watcher = node.new_watcher();
    let mut other = node.new_watcher();
    watcher.watch(&[user("alice")]).await.unwrap();
    other.watch(&[user("alice")]).await.unwrap();
    node.connect(socket_device("alice", "s1")).await.unwrap();
    assert_eq!(next_changes(node, &mut other).await.len(), 1);
    watcher.unwatch(&[user("alice")]);
    assert_eq!(watcher.try_next(), []);
    // The other watcher is not affected.
    let away = node
        .set_status(&user("alice"), PresenceStatus::Away)
        .await
        .unwrap();
    assert_eq!(next_changes(node, &mut other).await, [away]);
    assert_eq!(watcher.try_next(), []);
}
