//! Keys that somebody else wrote.

use std::time::Duration;

use parlor_chat::error::Error;
use parlor_chat::keys::{Key, PresenceLayout};
use parlor_chat::presence::Status;

use super::shown::{Shown, all_there_is};
use super::world::{GRACE, World, socket, user};
use super::{on_every_engine, on_every_layout};

on_every_layout! {
    a_key_of_another_type_makes_room;
}

on_every_engine! {
    one_state_that_cannot_be_read_keeps_nobody_else_waiting;
    a_device_of_another_version_is_registered_again;
}

/// Puts a list where a key of presence should be.
async fn spoil(world: &World, key: Key) {
    let mut pipe = redis::pipe();
    pipe.cmd("DEL").arg(&key).cmd("RPUSH").arg(&key).arg("x");
    pipe.exec_async(&mut world.store.clone()).await.unwrap();
}

async fn spoil_all(world: &World, who: &str) {
    let (who, keys) = (user(who), &world.keys);
    let names = match world.layout {
        PresenceLayout::Devices => vec![keys.presence_devices(&who)],
        PresenceLayout::Document => vec![keys.presence_document(&who)],
        PresenceLayout::Sockets => vec![keys.presence_online(&who), keys.presence_sockets(&who)],
        PresenceLayout::Status => vec![keys.presence_status(&who)],
    };
    for name in names {
        spoil(world, name).await;
    }
}

async fn a_key_of_another_type_makes_room(mut world: World) {
    spoil_all(&world, "alice").await;
    let at = world.now();
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    let shown = Shown::nobody("alice", &world).device("s1", "n0", at);
    let shown = shown.left(world.ttl()).socket("s1", world.ttl());
    shown.clone().must_be_all(&world).await;
    spoil_all(&world, "alice").await;
    world.nodes[1].connect(socket("alice", "s2")).await.unwrap();
    let both = shown.device("s2", "n1", at).socket("s2", world.ttl());
    both.must_be_all(&world).await;
    for device in ["s1", "s2"] {
        spoil_all(&world, "alice").await;
        for node in &world.nodes {
            node.leave(&socket("alice", device)).await.unwrap();
        }
    }
    world.tick().await;
    assert_eq!(world.news().await, ["online alice", "offline alice"]);
    let shown = Shown::nobody("alice", &world).seen(at);
    shown.must_be_all(&world).await;
}

async fn one_state_that_cannot_be_read_keeps_nobody_else_waiting(mut world: World) {
    for who in ["alice", "bob", "carol"] {
        let device = socket(who, &format!("s-{who}"));
        world.nodes[0].connect(device).await.unwrap();
    }
    let state = |who| world.keys.presence_state(&user(who));
    spoil(&world, state("bob")).await;
    // Alice's is lost, and her node has to notice by the answer to a beat that is sent together with Bob's.
    let mut lose = redis::cmd("DEL");
    lose.arg(state("alice"));
    lose.exec_async(&mut world.store.clone()).await.unwrap();
    for who in ["alice", "bob", "carol"] {
        let device = socket(who, &format!("s-{who}"));
        world.nodes[0].beat(&device).unwrap();
    }
    world.tick().await;
    world.is("alice", Status::Online).await;
    world.is("carol", Status::Online).await;

    // Nor when all are registered again, looked at, or end.
    let refused = world.nodes[1].connect(socket("bob", "s-1")).await;
    assert!(matches!(refused, Err(Error::Internal(_))), "{refused:?}");
    world.advance(GRACE * 3).await;
    world.tick().await;
    world.pass(GRACE * 2).await;
    world.nodes[0]
        .lose(&socket("carol", "s-carol"))
        .await
        .unwrap();
    world.pass(world.ttl()).await;
    world.tick().await;
    world.tick().await;
    let news = world.news().await;
    assert_eq!(news.len(), 5, "{news:?}");
    assert!(news[3..].contains(&"offline alice".to_owned()), "{news:?}");
    assert!(news[3..].contains(&"offline carol".to_owned()), "{news:?}");
    assert_eq!(
        world.nodes[0].count().await.unwrap(),
        1,
        "bob is looked at again"
    );
}

async fn a_device_of_another_version_is_registered_again(mut world: World) {
    let at = world.now();
    world.nodes[0].connect(socket("alice", "s1")).await.unwrap();
    let mut other = redis::cmd("HSET");
    other.arg(world.keys.presence_state(&user("alice")));
    other.arg("d:s1").arg("2/n0/unknown");
    other.exec_async(&mut world.store.clone()).await.unwrap();
    world.pass(Duration::from_secs(1)).await;
    world.nodes[0].beat(&socket("alice", "s1")).unwrap();
    world.tick().await;
    assert_eq!(world.news().await, ["online alice"]);
    let alice = Shown::nobody("alice", &world)
        .device("s1", "n0", at)
        .refreshed("s1", world.now())
        .left(world.ttl())
        .socket("s1", world.ttl());
    all_there_is(&world, &[alice]).await;
}
