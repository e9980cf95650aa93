//! What the bus has lost is made up for.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use parlor_chat::messages::Page;
use parlor_testkit::eventually;
use serde_json::Value;

use super::on_every_engine;
use super::world::{Heard, Told, World};
use crate::messages::world::{c1, user};

on_every_engine! {
    messages_without_a_frame_are_told_before_the_next;
    what_was_lost_is_read_when_the_bus_is_back;
    a_frame_of_another_version_makes_a_room_read;
    sends_and_changes_while_the_bus_is_lost_again_and_again;
    who_stopped_typing_while_the_bus_was_lost_is_told;
    what_was_read_while_the_bus_was_lost_is_told;
}

async fn messages_without_a_frame_are_told_before_the_next(world: World) {
    world.send(0, "alice", "one").await;
    let (heard, _follow) = world.follow(1, &[]).await;
    for text in ["two", "three"] {
        world.write_only("alice", text).await;
    }
    // So late that nobody publishes them any more.
    world.advance(Duration::from_secs(120)).await;
    world.forget().await;
    world.send(0, "alice", "four").await;
    heard.until(4).await;
    assert_eq!(heard.seqs(), [2, 3, 4]);
}

pub async fn what_was_lost_is_read_when_the_bus_is_back(world: World) {
    for text in ["one", "two"] {
        world.send(0, "alice", text).await;
    }
    let (heard, _follow) = world.follow(1, &[]).await;
    world
        .statement("UPDATE conversations SET rev = rev + 2 WHERE id = 'c1'")
        .await;
    world
        .statement("UPDATE messages SET content = 'changed', edited_at = 1, rev = 4 WHERE conversation_id = 'c1' AND seq = 1")
        .await;
    world
        .statement("UPDATE messages SET content = '', deleted_at = 1, rev = 3 WHERE conversation_id = 'c1' AND seq = 2")
        .await;
    world.write_only("alice", "three").await;
    world.lose_bus().await;
    heard.until(3).await;
    world.lose_bus().await;
    world.send(0, "alice", "four").await;
    heard.until(4).await;
    let mut told = heard.all();
    // What its sender has read by sending it may be told again.
    told.retain(|it| !matches!(it, Told::Read(..)));
    assert!(matches!(told[0], Told::Changed(2, 3, true, _)), "{told:?}");
    assert!(matches!(told[1], Told::Changed(1, 4, false, _)), "{told:?}");
    assert!(matches!(told[2], Told::Message(3, _)), "{told:?}");
    assert!(matches!(told[3], Told::Message(4, _)), "{told:?}");
    assert_eq!(told.len(), 4, "{told:?}");
}

async fn a_frame_of_another_version_makes_a_room_read(world: World) {
    let (heard, _follow) = world.follow(1, &[]).await;
    world.write_only("alice", "one").await;
    let channel = world.keys.conversation_bus(&c1());
    let bus = world.store.bus();
    bus.publish_sharded(channel.as_str(), [2, 3, 0])
        .await
        .unwrap();
    heard.until(1).await;
}

pub async fn sends_and_changes_while_the_bus_is_lost_again_and_again(world: World) {
    let (here, _follow_here) = world.follow(0, &[]).await;
    let (there, _follow_there) = world.follow(1, &[]).await;
    world.send(0, "alice", "first").await;
    for round in 0..4_u64 {
        let sends = async {
            join_all((0..10).map(|nth| world.send(nth % 2, "alice", "x"))).await;
        };
        let changes = async {
            let text = format!("{round}");
            world.edit(0, "alice", 2 * round + 1, &text).await.unwrap();
            world.edit(1, "alice", 1, &text).await.unwrap();
            world.delete(1, "alice", 2 * round).await.unwrap();
        };
        if round == 0 {
            sends.await;
            world.lose_bus().await;
            world.send(0, "alice", "x").await;
        } else {
            tokio::join!(sends, world.lose_bus());
            tokio::join!(changes, world.lose_bus());
        }
    }
    let list = world.nodes[0].messages();
    let bob = user("bob");
    let page = list.history(&c1(), Some(&bob), Page::Newest, 100).await;
    let expected: BTreeMap<u64, Value> = page
        .unwrap()
        .messages
        .into_iter()
        .map(|it| (it.seq, serde_json::to_value(it).unwrap()))
        .collect();
    let last = *expected.keys().last().unwrap();
    for heard in [here, there] {
        let same = async || seen(&heard) == expected;
        eventually("all is seen as it is", same).await;
        assert_eq!(heard.seqs(), (1..=last).collect::<Vec<_>>());
    }
}

/// The messages as a client sees them that believes all it is told.
fn seen(heard: &Heard) -> BTreeMap<u64, Value> {
    let mut seen = BTreeMap::<u64, Value>::new();
    for told in heard.all() {
        match told {
            Told::Message(seq, json) => assert_eq!(seen.insert(seq, json), None),
            Told::Changed(seq, rev, _, json) => {
                let before = seen.insert(seq, json).expect("it was told before");
                assert!(before["rev"].as_u64() < Some(rev), "{before} {rev}");
            }
            _ => {}
        }
    }
    seen
}

async fn who_stopped_typing_while_the_bus_was_lost_is_told(world: World) {
    let (heard, _follow) = world.follow(1, &[]).await;
    let typing = world.nodes[0].typing();
    typing.start(&c1(), &user("alice"), None).await.unwrap();
    heard.at_least(1).await;
    let mut del = redis::cmd("DEL");
    del.arg(world.keys.typers(&c1()));
    world.run(&del).await;
    world.lose_bus().await;
    let expected = ["alice"].map(|it| Told::Typing(it.into(), false));
    assert_eq!(heard.at_least(2).await[1..], expected);
}

async fn what_was_read_while_the_bus_was_lost_is_told(world: World) {
    for text in ["one", "two", "three"] {
        world.send(0, "alice", text).await;
    }
    let (heard, _follow) = world.follow(1, &[]).await;
    // As one whose frame is lost.
    world
        .statement("UPDATE members SET delivered_seq = 3, read_seq = 2 WHERE conversation_id = 'c1' AND user_id = 'bob'")
        .await;
    world.lose_bus().await;
    let told = async || {
        let told = heard.all();
        let bob = [
            Told::Read("bob".into(), 2),
            Told::Delivered("bob".into(), 3),
        ];
        bob.iter().all(|it| told.contains(it))
    };
    eventually("bob's receipts are told", told).await;
    // A conversation whose members nobody would list is left alone.
    world.count_members(33).await;
    let before = heard.all().len();
    world
        .statement(
            "UPDATE members SET read_seq = 3 WHERE conversation_id = 'c1' AND user_id = 'bob'",
        )
        .await;
    world.lose_bus().await;
    world.send(0, "alice", "four").await;
    heard.until(4).await;
    let told = heard.all();
    assert!(!told.contains(&Told::Read("bob".into(), 3)), "{told:?}");
    assert!(told.len() > before);
}
