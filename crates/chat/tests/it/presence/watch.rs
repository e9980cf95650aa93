//! Watching users.

use parlor_chat::error::Error;
use parlor_chat::ids::UserId;
use parlor_chat::keys::PresenceLayout;
use parlor_chat::presence::{MOST_WATCHED, Presence, Status, UserStatus, Watcher};
use parlor_testkit::eventually;

use super::on_every_engine;
use super::world::{World, socket, user};

on_every_engine! {
    a_watcher_gets_the_state_and_then_changes_of_its_users_only;
    only_the_latest_of_many_changes_is_told;
    nobody_is_watched_after_the_watcher_stopped;
    a_watcher_has_a_bounded_number_of_users;
    one_who_was_seen_as_gone_before_anybody_looked_is_told_as_back;
    what_came_before_a_user_was_watched_again_is_not_told;
}

/// The next changes, after as many flushes as the messages need to arrive.
async fn told(node: &Presence, watcher: &mut Watcher) -> Vec<UserStatus> {
    let arrived = eventually("a change is told", async || {
        node.flush_watchers().await.unwrap();
        let news = watcher.try_next();
        (!news.is_empty()).then_some(news)
    });
    arrived.await
}

async fn a_watcher_gets_the_state_and_then_changes_of_its_users_only(world: World) {
    let [here, there] = &world.nodes[..] else {
        panic!("two nodes")
    };
    there.connect(socket("alice", "s1")).await.unwrap();
    let mut watcher = here.watcher();
    let now = watcher.watch(&[user("alice"), user("bob")]).await.unwrap();
    let now: Vec<_> = now
        .iter()
        .map(|it| (it.user_id.as_str(), it.status))
        .collect();
    assert_eq!(now, [("alice", Status::Online), ("bob", Status::Offline)]);

    there.connect(socket("carol", "s2")).await.unwrap();
    there.connect(socket("bob", "s3")).await.unwrap();
    let news = told(here, &mut watcher).await;
    assert_eq!(news, [there.status(&user("bob")).await.unwrap()]);
    // Away is a change for those who watch.
    there.set(&user("alice"), Status::Away).await.unwrap();
    let news = told(here, &mut watcher).await;
    assert_eq!(news, [there.status(&user("alice")).await.unwrap()]);
    there.leave(&socket("alice", "s1")).await.unwrap();
    let news = told(here, &mut watcher).await;
    assert_eq!(news, [there.status(&user("alice")).await.unwrap()]);
    assert_eq!(news[0].status, Status::Offline);
    assert!(news[0].last_seen.is_some());
}

async fn only_the_latest_of_many_changes_is_told(world: World) {
    let node = &world.nodes[0];
    let mut watcher = node.watcher();
    watcher.watch(&[user("alice")]).await.unwrap();
    node.connect(socket("alice", "s1")).await.unwrap();
    for status in [Status::Away, Status::Busy, Status::Offline, Status::Online] {
        node.set(&user("alice"), status).await.unwrap();
    }
    let last = node.set(&user("alice"), Status::Busy).await.unwrap();
    let mut versions = Vec::new();
    while versions.last() != Some(&last.version) {
        let news = told(node, &mut watcher).await;
        assert_eq!(news.len(), 1, "one line for one user: {news:?}");
        versions.push(news[0].version);
    }
    assert!(versions.is_sorted(), "{versions:?}");
}

#[tokio::test]
async fn what_was_published_while_the_connection_was_lost_is_read() {
    let world = World::redis(PresenceLayout::Devices).await;
    let node = &world.nodes[0];
    let mut watcher = node.watcher();
    watcher.watch(&[user("alice")]).await.unwrap();
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("pubsub");
    let killed: u64 = kill.query_async(&mut world.store.clone()).await.unwrap();
    assert!(killed > 0);
    let now = node.connect(socket("alice", "s1")).await.unwrap();
    assert_eq!(told(node, &mut watcher).await, [now]);
}

async fn nobody_is_watched_after_the_watcher_stopped(world: World) {
    let node = &world.nodes[0];
    let mut watcher = node.watcher();
    watcher.watch(&[user("alice"), user("bob")]).await.unwrap();
    watcher.unwatch(&[user("alice")]);
    node.connect(socket("alice", "s1")).await.unwrap();
    node.connect(socket("bob", "s2")).await.unwrap();
    let news = told(node, &mut watcher).await;
    assert_eq!(news[0].user_id, user("bob"));
    drop(watcher);
    node.flush_watchers().await.unwrap();
    eventually("nobody listens any more", async || {
        let mut channels = redis::cmd("PUBSUB");
        channels.arg("CHANNELS").arg("parlor:watch:*");
        let channels: redis::RedisResult<Vec<String>> =
            channels.query_async(&mut world.store.clone()).await;
        channels.map(|channels| channels.is_empty())
    })
    .await;
}

async fn a_watcher_has_a_bounded_number_of_users(world: World) {
    let mut watcher = world.nodes[0].watcher();
    let users: Vec<UserId> = (0..=MOST_WATCHED)
        .map(|it| user(&format!("u{it}")))
        .collect();
    let refused = watcher.watch(&users).await.unwrap_err();
    assert!(
        matches!(refused, Error::TooMany { given: 1_001, .. }),
        "{refused}"
    );
    let twice = [&users[..600], &users[..600]].concat();
    assert!(watcher.watch(&twice).await.is_err(), "nor in one question");
    watcher.watch(&users[1..]).await.unwrap();
    assert!(watcher.watch(&users[..1]).await.is_err());
}

/// As after an outage: the deadlines are over, and nobody may judge yet.
async fn one_who_was_seen_as_gone_before_anybody_looked_is_told_as_back(mut world: World) {
    let online = world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    world.pass(world.ttl()).await;
    let mut watcher = world.nodes[1].watcher();
    let now = watcher.watch(&[user("alice")]).await.unwrap();
    assert_eq!(
        (now[0].status, now[0].version),
        (Status::Offline, online.version)
    );
    world.nodes[0].beat(&socket("alice", "s1")).unwrap();
    world.nodes[0].flush_beats().await.unwrap();
    let back = told(&world.nodes[1], &mut watcher).await;
    assert_eq!(back[0].status, Status::Online);
    assert!(back[0].version > online.version);
    assert_eq!(back, [world.status("alice").await]);
    assert_eq!(
        world.news().await,
        ["online alice"],
        "services were not told that she went"
    );
}

async fn what_came_before_a_user_was_watched_again_is_not_told(world: World) {
    let node = &world.nodes[0];
    let mut watcher = node.watcher();
    let mut other = node.watcher();
    watcher.watch(&[user("alice")]).await.unwrap();
    other.watch(&[user("alice")]).await.unwrap();
    node.connect(socket("alice", "s1")).await.unwrap();
    assert_eq!(told(node, &mut other).await.len(), 1);
    watcher.unwatch(&[user("alice")]);
    assert_eq!(watcher.try_next(), []);
    // The other one is not disturbed.
    let away = node.set(&user("alice"), Status::Away).await.unwrap();
    assert_eq!(told(node, &mut other).await, [away]);
    assert_eq!(watcher.try_next(), []);
}
