//! Notifications about conversations above the fan-out limit.

use std::time::Duration;

use parlor_chat::api::operation::Operation;
use parlor_chat::conversations::{JoinConversation, LeaveConversation};
use parlor_testkit::eventually;
use serde_json::json;

use super::fixture::{ReceivedEvent, World};
use super::on_every_engine;
use crate::capabilities::messages::fixture::{c1, person, text};

on_every_engine! {
    members_are_told_of_the_newest_message_once_a_second;
    a_node_reads_only_the_changed_members_of_a_large_conversation;
}

pub async fn members_are_told_of_the_newest_message_once_a_second(mut world: World) {
    world.options.fanout_limit = 1;
    for name in ["n2", "n3"] {
        let node = world.start(name).await;
        world.nodes.push(node);
    }
    let (bob, _follow_bob) = world.subscribe_to_user(3, "bob").await;
    let (carol, _follow_carol) = world.subscribe_to_user(3, "carol").await;
    let (dave, _follow_dave) = world.subscribe_to_user(3, "dave").await;
    let send = async || {
        let sent = world.nodes[2].messages();
        let sent = sent.send(&person("alice"), &c1(), text("x")).await;
        sent.unwrap();
    };
    // The background tasks of both nodes do this several times a second.
    let tick = async || {
        world.nodes[2]
            .unread()
            .publish_due_notifications()
            .await
            .unwrap();
        world.nodes[3].live().run_background_once().await.unwrap();
    };
    let notification =
        |seq: u64| ReceivedEvent::Unread(json!({ "conversationId": "c1", "lastSeq": seq }));
    for _ in 0..3 {
        send().await;
    }
    for subscriber in [&bob, &carol] {
        let notified = async || {
            tick().await;
            subscriber.all() == [notification(1)]
        };
        eventually("the first message is notified", notified).await;
    }
    world.advance(Duration::from_secs(1)).await;
    for subscriber in [&bob, &carol] {
        let notified = async || {
            tick().await;
            subscriber.all() == [notification(1), notification(3)]
        };
        eventually("the newest message is notified one second later", notified).await;
    }
    let leave = LeaveConversation {
        conversation_id: "c1".into(),
    };
    leave.run(&world.nodes[2], &person("bob")).await.unwrap();
    world.advance(Duration::from_secs(2)).await;
    tick().await;
    send().await;
    let notified = async || {
        tick().await;
        carol.all().last() == Some(&notification(4))
    };
    eventually("a remaining member is notified", notified).await;
    let unread = bob.all().into_iter().filter(|it| *it == notification(4));
    assert_eq!(unread.count(), 0);
    assert_eq!(dave.all(), []);
}

async fn a_node_reads_only_the_changed_members_of_a_large_conversation(mut world: World) {
    world.options.fanout_limit = 1;
    for name in ["n2", "n3"] {
        let node = world.start(name).await;
        world.nodes.push(node);
    }
    let (carol, _follow_carol) = world.subscribe_to_user(3, "carol").await;
    let (dave, _follow_dave) = world.subscribe_to_user(3, "dave").await;
    let c1_id = || "c1".to_owned();
    let mut seq = 0;
    for members in [vec!["carol"], vec!["carol", "dave"], vec!["carol"]] {
        // Both changes of Dave have their own version.
        let node = &world.nodes[2];
        if members.contains(&"dave") {
            let conversation_id = c1_id();
            let join = JoinConversation { conversation_id };
            join.run(node, &person("dave")).await.unwrap();
        } else if seq > 0 {
            let conversation_id = c1_id();
            let leave = LeaveConversation { conversation_id };
            leave.run(node, &person("dave")).await.unwrap();
        }
        seq += 1;
        let sent = node.messages();
        let sent = sent.send(&person("alice"), &c1(), text("x")).await;
        assert_eq!(sent.unwrap().message.seq, seq);
        let notification = ReceivedEvent::Unread(json!({ "conversationId": "c1", "lastSeq": seq }));
        let notified = async || {
            node.unread().publish_due_notifications().await.unwrap();
            world.nodes[3].live().run_background_once().await.unwrap();
            carol.all().contains(&notification)
        };
        eventually("the members are notified", notified).await;
        let is_dave_notified = dave.all().contains(&notification);
        assert_eq!(is_dave_notified, members.contains(&"dave"), "{seq}");
        assert_eq!(world.nodes[3].live().member_set_loads(), 1, "{seq}");
        world.advance(Duration::from_secs(2)).await;
    }
}
