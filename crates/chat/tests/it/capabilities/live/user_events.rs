//! Events of a user feed.

use parlor_chat::api::operation::Operation;
use parlor_chat::conversations::{LeaveConversation, MemberRole, PutMember};
use serde_json::json;

use super::fixture::{ReceivedEvent, World};
use super::on_every_engine;
use crate::capabilities::messages::fixture::{c1, person, user};

on_every_engine! {
    counts_are_told_on_every_node_and_follow_what_was_read_elsewhere;
    a_user_is_told_where_they_come_and_go_and_not_their_role;
    a_user_follower_gets_maybe_missed_after_a_bus_gap;
}

async fn counts_are_told_on_every_node_and_follow_what_was_read_elsewhere(world: World) {
    let (here, _follow_here) = world.subscribe_to_user(0, "bob").await;
    let (there, _follow_there) = world.subscribe_to_user(1, "bob").await;
    world.send(0, "alice", "one").await;
    world.send(1, "alice", "two").await;
    let unread = world.nodes[0].unread();
    unread.read(&user("bob"), &c1(), None).await.unwrap();
    let count = |count: u64| {
        ReceivedEvent::Unread(json!({ "conversationId": "c1", "count": count, "total": count }))
    };
    for subscriber in [here, there] {
        let events = subscriber.wait_for_events(3).await;
        assert_eq!(events, [count(1), count(2), count(0)]);
    }
}

async fn a_user_is_told_where_they_come_and_go_and_not_their_role(world: World) {
    let (subscriber, _subscription) = world.subscribe_to_user(1, "dave").await;
    let node = &world.nodes[0];
    let put = |role| PutMember {
        conversation_id: "c1".into(),
        user_id: "dave".into(),
        role: Some(role),
        muted_until: None,
    };
    for role in [MemberRole::Member, MemberRole::Admin] {
        put(role).run(node, &person("alice")).await.unwrap();
    }
    let leave = LeaveConversation {
        conversation_id: "c1".into(),
    };
    leave.run(node, &person("dave")).await.unwrap();
    let events = subscriber.wait_for_events(2).await;
    let expected = [true, false].map(|joined| ReceivedEvent::Membership("c1".into(), joined));
    assert_eq!(events, expected);
}

async fn a_user_follower_gets_maybe_missed_after_a_bus_gap(world: World) {
    let (subscriber, _subscription) = world.subscribe_to_user(1, "bob").await;
    let channel = world.keys.user_channel(&user("bob"));
    let bus = world.store.bus();
    bus.publish_sharded(channel.as_str(), [2, 7]).await.unwrap();
    subscriber.wait_for_events(1).await;
    world.drop_bus_messages().await;
    let events = subscriber.wait_for_events(2).await;
    assert!(
        events.iter().all(|it| *it == ReceivedEvent::Missed),
        "{events:?}"
    );
}
