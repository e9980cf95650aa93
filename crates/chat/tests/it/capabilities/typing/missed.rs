//! What was published and did not arrive.

use parlor_chat::keys::TypingLayout;
use parlor_chat::typing::{Typing, TypingListener};
use parlor_testkit::eventually;

use super::fixture::{World, conversation, frame, listen, start};
use super::on_every_layout;

on_every_layout! {
    a_frame_of_another_version_makes_the_node_look;
    other_frames_do_no_harm;
}

/// Changes who types in `c1` without telling: alice no more, bob from now on.
async fn in_silence(world: &World) {
    let conv = conversation("c1");
    let until = world.now().saturating_add(world.ttl()).as_millis();
    let mut steps = redis::pipe();
    let index = world.keys.typers(&conv);
    steps.cmd("ZREM").arg(&index).arg("alice");
    steps.cmd("ZADD").arg(&index).arg(until).arg("bob");
    let names = world.keys.typer_names(&conv);
    steps.cmd("HSET").arg(&names).arg("bob").arg("Bob");
    steps.exec_async(&mut world.store.clone()).await.unwrap();
}

async fn is_told(node: &Typing, listener: &mut TypingListener) {
    let mut told = Vec::new();
    eventually("what was missed is told", async || {
        node.expire().await.unwrap();
        let changes = std::iter::from_fn(|| listener.try_next());
        told.extend(changes.map(|it| (it.user_id.to_string(), it.username, it.typing)));
        told.len() >= 2
    })
    .await;
    let alice = ("alice".to_owned(), None, false);
    let bob = ("bob".to_owned(), Some("Bob".to_owned()), true);
    assert_eq!(told, [alice, bob]);
    node.expire().await.unwrap();
    assert_eq!(listener.try_next(), None);
}

async fn a_frame_of_another_version_makes_the_node_look(mut world: World) {
    let mut listener = listen(&world.nodes[0], "c1").await;
    start(&world.nodes[1], "c1", "alice").await;
    assert_eq!(
        world.change_texts(&mut listener, "c1").await,
        ["alice types"]
    );
    in_silence(&world).await;
    world.publish("c1", &[2, 1, 7, 7]).await;
    is_told(&world.nodes[0], &mut listener).await;
    // They end like all others.
    world.advance(world.ttl()).await;
    world.nodes[0].expire().await.unwrap();
    assert_eq!(
        world.change_texts(&mut listener, "c1").await,
        ["bob stopped"]
    );
}

#[tokio::test]
async fn what_was_published_while_the_connection_was_lost_is_read() {
    let mut world = World::redis(TypingLayout::Document).await;
    let mut listener = listen(&world.nodes[0], "c1").await;
    start(&world.nodes[1], "c1", "alice").await;
    assert_eq!(
        world.change_texts(&mut listener, "c1").await,
        ["alice types"]
    );
    in_silence(&world).await;
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("pubsub");
    let killed: u64 = kill.query_async(&mut world.store.clone()).await.unwrap();
    assert!(killed > 0);
    is_told(&world.nodes[0], &mut listener).await;
}

async fn other_frames_do_no_harm(mut world: World) {
    let mut listener = listen(&world.nodes[0], "c1").await;
    start(&world.nodes[1], "c1", "alice").await;
    assert_eq!(
        world.change_texts(&mut listener, "c1").await,
        ["alice types"]
    );
    let now = world.now().as_millis();
    let other: [&[u8]; 8] = [
        b"",
        b"\x01",
        b"\x01\x02a message",
        b"\x02\x01of the future",
        b"text of somebody else",
        b"\x01\x01\x00",
        &frame(now + 1, "no id: a blank"),
        &frame(now, "late"),
    ];
    for frame in other {
        world.publish("c1", frame).await;
    }
    world.nodes[0].expire().await.unwrap();
    let told = world.change_texts(&mut listener, "c1").await;
    assert_eq!(told, [] as [&str; 0], "the store says the same as before");
    // A frame that promises too much is believed for as long as anybody may type.
    world.publish("c1", &frame(u64::MAX, "mallory")).await;
    let told = world.change_texts(&mut listener, "c1").await;
    assert_eq!(told, ["mallory types"]);
    world.advance(world.ttl()).await;
    world.nodes[0].expire().await.unwrap();
    let mut told = world.change_texts(&mut listener, "c1").await;
    told.sort();
    assert_eq!(told, ["alice stopped", "mallory stopped"]);
}
