//! Live feeds deliver what the bus has lost.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use parlor_chat::api::operation::Operation;
use parlor_chat::conversations::JoinConversation;
use parlor_chat::messages::HistoryAnchor;
use parlor_testkit::eventually;
use serde_json::Value;

use super::fixture::{ReceivedEvent, RecordingSubscriber, World};
use super::on_every_engine;
use crate::capabilities::messages::fixture::{c1, person, user};

on_every_engine! {
    unpublished_messages_are_delivered_before_the_next_one;
    what_was_lost_is_read_when_the_bus_is_back;
    a_frame_of_another_version_triggers_a_database_read;
    sends_and_changes_while_the_bus_is_lost_again_and_again;
    who_stopped_typing_while_the_bus_was_lost_is_told;
    what_was_read_while_the_bus_was_lost_is_told;
    a_member_who_never_connected_has_no_receipt;
}

async fn unpublished_messages_are_delivered_before_the_next_one(world: World) {
    world.send(0, "alice", "one").await;
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    for text in ["two", "three"] {
        world.commit_without_applying("alice", text).await;
    }
    // After two minutes no node publishes these messages any more.
    world.advance(Duration::from_secs(120)).await;
    world.delete_applied_state().await;
    world.send(0, "alice", "four").await;
    subscriber.wait_for_seq(4).await;
    assert_eq!(subscriber.seqs(), [2, 3, 4]);
}

pub async fn what_was_lost_is_read_when_the_bus_is_back(world: World) {
    for text in ["one", "two"] {
        world.send(0, "alice", text).await;
    }
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    world
        .execute_sql("UPDATE conversations SET rev = rev + 2 WHERE id = 'c1'")
        .await;
    world
        .execute_sql("UPDATE messages SET content = 'changed', edited_at = 1, rev = 4 WHERE conversation_id = 'c1' AND seq = 1")
        .await;
    world
        .execute_sql("UPDATE messages SET content = '', deleted_at = 1, rev = 3 WHERE conversation_id = 'c1' AND seq = 2")
        .await;
    world.commit_without_applying("alice", "three").await;
    world.drop_bus_messages().await;
    subscriber.wait_for_seq(3).await;
    world.drop_bus_messages().await;
    world.send(0, "alice", "four").await;
    subscriber.wait_for_seq(4).await;
    let mut events = subscriber.all();
    // The receipts of the sender may be delivered again.
    events.retain(|it| !matches!(it, ReceivedEvent::Read(..)));
    assert!(
        matches!(events[0], ReceivedEvent::Changed(2, 3, true, _)),
        "{events:?}"
    );
    assert!(
        matches!(events[1], ReceivedEvent::Changed(1, 4, false, _)),
        "{events:?}"
    );
    assert!(
        matches!(events[2], ReceivedEvent::Message(3, _)),
        "{events:?}"
    );
    assert!(
        matches!(events[3], ReceivedEvent::Message(4, _)),
        "{events:?}"
    );
    assert_eq!(events.len(), 4, "{events:?}");
}

async fn a_frame_of_another_version_triggers_a_database_read(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    world.commit_without_applying("alice", "one").await;
    let channel = world.keys.conversation_channel(&c1());
    let bus = world.store.bus();
    bus.publish_sharded(channel.as_str(), [2, 3, 0])
        .await
        .unwrap();
    subscriber.wait_for_seq(1).await;
}

pub async fn sends_and_changes_while_the_bus_is_lost_again_and_again(world: World) {
    let (here, _follow_here) = world.subscribe(0, &[]).await;
    let (there, _follow_there) = world.subscribe(1, &[]).await;
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
            world.drop_bus_messages().await;
            world.send(0, "alice", "x").await;
        } else {
            tokio::join!(sends, world.drop_bus_messages());
            tokio::join!(changes, world.drop_bus_messages());
        }
    }
    let list = world.nodes[0].messages();
    let bob = user("bob");
    let page = list
        .history(&c1(), Some(&bob), HistoryAnchor::Newest, 100)
        .await;
    let expected: BTreeMap<u64, Value> = page
        .unwrap()
        .messages
        .into_iter()
        .map(|it| (it.seq, serde_json::to_value(it).unwrap()))
        .collect();
    let last = *expected.keys().last().unwrap();
    for subscriber in [here, there] {
        let same = async || client_view(&subscriber) == expected;
        eventually("the client sees the current messages", same).await;
        assert_eq!(subscriber.seqs(), (1..=last).collect::<Vec<_>>());
    }
}

/// The messages as a client sees them that applies every event.
fn client_view(subscriber: &RecordingSubscriber) -> BTreeMap<u64, Value> {
    let mut seen = BTreeMap::<u64, Value>::new();
    for events in subscriber.all() {
        match events {
            ReceivedEvent::Message(seq, json) => assert_eq!(seen.insert(seq, json), None),
            ReceivedEvent::Changed(seq, rev, _, json) => {
                let before = seen
                    .insert(seq, json)
                    .expect("the message was delivered before");
                assert!(before["rev"].as_u64() < Some(rev), "{before} {rev}");
            }
            _ => {}
        }
    }
    seen
}

async fn who_stopped_typing_while_the_bus_was_lost_is_told(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    let typing = world.nodes[0].typing();
    typing.start(&c1(), &user("alice"), None).await.unwrap();
    subscriber.wait_for_events(1).await;
    let mut del = redis::cmd("DEL");
    del.arg(world.keys.typing_index(&c1()));
    world.run(&del).await;
    world.drop_bus_messages().await;
    let expected = ["alice"].map(|it| ReceivedEvent::Typing(it.into(), false));
    assert_eq!(subscriber.wait_for_events(2).await[1..], expected);
}

async fn what_was_read_while_the_bus_was_lost_is_told(world: World) {
    for text in ["one", "two", "three"] {
        world.send(0, "alice", text).await;
    }
    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    // As if the frame of the receipt was lost.
    world
        .execute_sql("UPDATE members SET delivered_seq = 3, read_seq = 2 WHERE conversation_id = 'c1' AND user_id = 'bob'")
        .await;
    world.drop_bus_messages().await;
    let events = async || {
        let events = subscriber.all();
        let bob = [
            ReceivedEvent::Read("bob".into(), 2),
            ReceivedEvent::Delivered("bob".into(), 3),
        ];
        bob.iter().all(|it| events.contains(it))
    };
    eventually("bob's receipts are delivered", events).await;
    // In a conversation with more members the feed does not deliver all receipts again.
    world.set_member_count(33).await;
    let before = subscriber.all().len();
    world
        .execute_sql(
            "UPDATE members SET read_seq = 3 WHERE conversation_id = 'c1' AND user_id = 'bob'",
        )
        .await;
    world.drop_bus_messages().await;
    world.send(0, "alice", "four").await;
    subscriber.wait_for_seq(4).await;
    let events = subscriber.all();
    assert!(
        !events.contains(&ReceivedEvent::Read("bob".into(), 3)),
        "{events:?}"
    );
    assert!(events.len() > before);
}

async fn a_member_who_never_connected_has_no_receipt(world: World) {
    for text in ["one", "two"] {
        world.send(0, "alice", text).await;
    }
    let join = JoinConversation {
        conversation_id: "c1".into(),
    };
    join.run(&world.nodes[0], &person("dave")).await.unwrap();
    let (unread, dave) = (world.nodes[0].unread(), user("dave"));
    let page = unread.receipts(&c1(), None, 10).await.unwrap();
    let receipt = page.receipts.iter().find(|it| it.user_id == dave).unwrap();
    assert_eq!((receipt.delivered_seq, receipt.read_seq), (0, 0));
    let count = unread.count_in_conversation(&dave, &c1()).await.unwrap();
    assert_eq!(count, 0, "earlier messages are not unread");

    let (subscriber, _subscription) = world.subscribe(1, &[]).await;
    world.drop_bus_messages().await;
    let of_alice = ReceivedEvent::Read("alice".into(), 2);
    let resynced = async || subscriber.all().contains(&of_alice);
    eventually("the receipts are delivered again", resynced).await;
    unread.read(&dave, &c1(), None).await.unwrap();
    let of_dave = |it: &ReceivedEvent| matches!(it, ReceivedEvent::Read(user, _) | ReceivedEvent::Delivered(user, _) if user == "dave");
    let received = async || subscriber.all().iter().any(of_dave);
    eventually("the receipt that a client sent is delivered", received).await;
    let receipts = subscriber.all().into_iter().filter(of_dave);
    assert_eq!(
        receipts.collect::<Vec<_>>(),
        [ReceivedEvent::Read("dave".into(), 2)]
    );
}
