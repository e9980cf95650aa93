//! Keys of a foreign type.

use std::time::Duration;

use parlor_chat::api::error::Error;
use parlor_chat::keys::{Key, PresenceLayout};
use parlor_chat::presence::PresenceStatus;

use super::expected_keys::{ExpectedKeys, assert_store_holds_exactly};
use super::fixture::{GRACE, World, socket_device, user};
use super::{on_every_engine, on_every_layout};

on_every_layout! {
    presence_replaces_keys_of_the_wrong_type;
}

on_every_engine! {
    one_state_that_cannot_be_read_keeps_nobody_else_waiting;
    a_device_of_another_version_is_registered_again;
}

/// Replaces a key of presence by a list.
async fn replace_with_list(world: &World, key: Key) {
    let mut pipe = redis::pipe();
    pipe.cmd("DEL").arg(&key).cmd("RPUSH").arg(&key).arg("x");
    pipe.exec_async(&mut world.store.clone()).await.unwrap();
}

async fn replace_all_with_lists(world: &World, who: &str) {
    let (who, keys) = (user(who), &world.keys);
    let names = match world.layout {
        PresenceLayout::Devices => vec![keys.presence_devices(&who)],
        PresenceLayout::Document => vec![keys.presence_document(&who)],
        PresenceLayout::Sockets => vec![keys.presence_online(&who), keys.presence_sockets(&who)],
        PresenceLayout::Status => vec![keys.presence_status(&who)],
    };
    for name in names {
        replace_with_list(world, name).await;
    }
}

async fn presence_replaces_keys_of_the_wrong_type(mut world: World) {
    replace_all_with_lists(&world, "alice").await;
    let at = world.now();
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    let shown = ExpectedKeys::offline("alice", &world).device("s1", "n0", at);
    let shown = shown.left(world.ttl()).socket("s1", world.ttl());
    shown.clone().assert_only_these(&world).await;
    replace_all_with_lists(&world, "alice").await;
    world.nodes[1]
        .connect(socket_device("alice", "s2"))
        .await
        .unwrap();
    let both = shown.device("s2", "n1", at).socket("s2", world.ttl());
    both.assert_only_these(&world).await;
    for device in ["s1", "s2"] {
        replace_all_with_lists(&world, "alice").await;
        for node in &world.nodes {
            node.leave(&socket_device("alice", device)).await.unwrap();
        }
    }
    world.run_background_once().await;
    assert_eq!(
        world.drain_event_names().await,
        ["online alice", "offline alice"]
    );
    let shown = ExpectedKeys::offline("alice", &world).seen(at);
    shown.assert_only_these(&world).await;
}

async fn one_state_that_cannot_be_read_keeps_nobody_else_waiting(mut world: World) {
    for who in ["alice", "bob", "carol"] {
        let device = socket_device(who, &format!("s-{who}"));
        world.nodes[0].connect(device).await.unwrap();
    }
    let state = |who| world.keys.presence_state(&user(who));
    replace_with_list(&world, state("bob")).await;
    // Alice's state is lost. Her node must notice it by the reply to a heartbeat in the same pipeline as Bob's.
    let mut lose = redis::cmd("DEL");
    lose.arg(state("alice"));
    lose.exec_async(&mut world.store.clone()).await.unwrap();
    for who in ["alice", "bob", "carol"] {
        let device = socket_device(who, &format!("s-{who}"));
        world.nodes[0].beat(&device).unwrap();
    }
    world.run_background_once().await;
    world.assert_status("alice", PresenceStatus::Online).await;
    world.assert_status("carol", PresenceStatus::Online).await;

    // The key also does not disturb registrations, checks and departures of other users.
    let refused = world.nodes[1].connect(socket_device("bob", "s-1")).await;
    assert!(
        matches!(refused, Err(Error::StoreRejected(_))),
        "{refused:?}"
    );
    world.advance(GRACE * 3).await;
    world.run_background_once().await;
    world.pass(GRACE * 2).await;
    world.nodes[0]
        .connection_lost(&socket_device("carol", "s-carol"))
        .await
        .unwrap();
    world.pass(world.ttl()).await;
    world.run_background_once().await;
    world.run_background_once().await;
    let news = world.drain_event_names().await;
    assert_eq!(news.len(), 5, "{news:?}");
    assert!(news[3..].contains(&"offline alice".to_owned()), "{news:?}");
    assert!(news[3..].contains(&"offline carol".to_owned()), "{news:?}");
    assert_eq!(
        world.nodes[0].count().await.unwrap(),
        1,
        "bob is checked again"
    );
}

async fn a_device_of_another_version_is_registered_again(mut world: World) {
    let at = world.now();
    world.nodes[0]
        .connect(socket_device("alice", "s1"))
        .await
        .unwrap();
    let mut other = redis::cmd("HSET");
    other.arg(world.keys.presence_state(&user("alice")));
    other.arg("d:s1").arg("2/n0/unknown");
    other.exec_async(&mut world.store.clone()).await.unwrap();
    world.pass(Duration::from_secs(1)).await;
    world.nodes[0].beat(&socket_device("alice", "s1")).unwrap();
    world.run_background_once().await;
    assert_eq!(world.drain_event_names().await, ["online alice"]);
    let alice = ExpectedKeys::offline("alice", &world)
        .device("s1", "n0", at)
        .refreshed_at("s1", world.now())
        .left(world.ttl())
        .socket("s1", world.ttl());
    assert_store_holds_exactly(&world, &[alice]).await;
}
