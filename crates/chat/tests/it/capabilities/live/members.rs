//! Members join and leave, and conversations are deleted.

use std::time::Duration;

use parlor_chat::api::operation::Operation;
use parlor_chat::conversations::{
    DeleteConversation, JoinConversation, LeaveConversation, MemberRole, PutMember, RemoveMember,
    UpdateConversation,
};

use parlor_chat::failpoint::Failpoint;

use super::fixture::{ReceivedEvent, World};
use super::on_every_engine;
use crate::capabilities::messages::fixture::{c1, person};

on_every_engine! {
    membership_changes_are_delivered_in_order_with_messages;
    an_unpublished_removal_is_delivered_before_the_next_message;
    a_removal_whose_node_is_killed_is_delivered_by_the_outbox;
    a_removal_that_is_not_published_is_delivered_before_the_next_message;
    a_stale_removal_frame_is_ignored;
    a_deleted_conversation_is_told_and_nothing_after_it;
    a_changed_role_and_a_changed_title_are_delivered;
    a_lost_change_of_the_title_is_delivered_after_the_resync;
}

fn id() -> String {
    "c1".into()
}

async fn membership_changes_are_delivered_in_order_with_messages(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &["bob"]).await;
    let node = &world.nodes[0];
    let leave = LeaveConversation {
        conversation_id: id(),
    };
    leave.run(node, &person("bob")).await.unwrap();
    world.send(0, "alice", "he is gone").await;
    let join = JoinConversation {
        conversation_id: id(),
    };
    join.run(node, &person("dave")).await.unwrap();
    let events = subscriber.wait_for_events(3).await;
    assert_eq!(events[0], ReceivedEvent::members(&[], &["bob"]));
    assert!(matches!(events[1], ReceivedEvent::Message(1, _)));
    assert_eq!(events[2], ReceivedEvent::members(&["dave"], &[]));
}

async fn an_unpublished_removal_is_delivered_before_the_next_message(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &["bob", "carol"]).await;
    world
        .execute_sql("DELETE FROM members WHERE conversation_id = 'c1' AND user_id = 'bob'")
        .await;
    world
        .execute_sql(
            "UPDATE conversations SET members_version = members_version + 1 WHERE id = 'c1'",
        )
        .await;
    world.commit_without_applying("alice", "not for bob").await;
    world.drop_bus_messages().await;
    let events = subscriber.wait_for_events(3).await;
    assert_eq!(events[0], ReceivedEvent::members(&[], &["bob"]));
    // Other changes of members may be lost, too.
    let ReceivedEvent::Updated(conversation) = &events[1] else {
        panic!("{events:?}");
    };
    assert_eq!(conversation["membersVersion"], 2);
    assert!(matches!(events[2], ReceivedEvent::Message(1, _)));
}

/// Removes Bob on a node that stops after the commit.
async fn remove_bob_and_stop(world: &World) {
    let failpoint = Failpoint::new("members.committed");
    let node = world.start_with_failpoint("n9", &failpoint).await;
    let removal = tokio::spawn(async move {
        let remove = RemoveMember {
            conversation_id: "c1".into(),
            user_id: "bob".into(),
        };
        drop(remove.run(&node, &person("alice")).await);
    });
    failpoint.wait_until_reached().await;
    removal.abort();
}

async fn a_removal_whose_node_is_killed_is_delivered_by_the_outbox(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &["bob"]).await;
    remove_bob_and_stop(&world).await;
    world.nodes[1].outbox().apply_due().await.unwrap();
    assert_eq!(subscriber.all(), []);
    world.advance(Duration::from_secs(1)).await;
    assert_eq!(world.nodes[1].outbox().apply_due().await.unwrap(), 1);
    let events = subscriber.wait_for_events(1).await;
    assert_eq!(events[0], ReceivedEvent::members(&[], &["bob"]));
}

async fn a_removal_that_is_not_published_is_delivered_before_the_next_message(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &["bob"]).await;
    remove_bob_and_stop(&world).await;
    world.send(0, "alice", "not for bob").await;
    subscriber.wait_for_seq(1).await;
    let events = subscriber.all();
    let removal = events
        .iter()
        .position(|it| *it == ReceivedEvent::members(&[], &["bob"]));
    let message = events
        .iter()
        .position(|it| matches!(it, ReceivedEvent::Message(1, _)));
    assert!(removal.unwrap() < message.unwrap(), "{events:?}");
}

async fn a_stale_removal_frame_is_ignored(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &["bob"]).await;
    let late = br#"{"membersVersion":1,"deleted":false,"members":[{"userId":"bob","role":null}]}"#;
    let frame = [&[1, 6][..], late].concat();
    let channel = world.keys.conversation_channel(&c1());
    let bus = world.store.bus();
    bus.publish_sharded(channel.as_str(), frame).await.unwrap();
    world.send(0, "alice", "all are here").await;
    subscriber.wait_for_seq(1).await;
    assert_eq!(subscriber.all().len(), 1);
}

async fn a_deleted_conversation_is_told_and_nothing_after_it(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &["bob"]).await;
    let delete = DeleteConversation {
        conversation_id: id(),
    };
    delete.run(&world.nodes[0], &person("alice")).await.unwrap();
    assert_eq!(
        subscriber.wait_for_events(1).await,
        [ReceivedEvent::Deleted]
    );
    world.drop_bus_messages().await;
    let put = PutMember {
        conversation_id: id(),
        user_id: "dave".into(),
        role: Some(MemberRole::Member),
        ..PutMember::default()
    };
    assert!(put.run(&world.nodes[0], &person("alice")).await.is_err());
    let remove = RemoveMember {
        conversation_id: id(),
        user_id: "bob".into(),
    };
    assert!(remove.run(&world.nodes[0], &person("alice")).await.is_err());
    assert_eq!(subscriber.all(), [ReceivedEvent::Deleted]);
}

fn rename(title: &str) -> UpdateConversation {
    UpdateConversation {
        conversation_id: id(),
        title: Some(title.into()),
        ..UpdateConversation::default()
    }
}

async fn a_changed_role_and_a_changed_title_are_delivered(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &["bob"]).await;
    let (bob, _subscription_of_bob) = world.subscribe_to_user(1, "bob").await;
    let promote = PutMember {
        conversation_id: id(),
        user_id: "carol".into(),
        role: Some(MemberRole::Admin),
        ..PutMember::default()
    };
    let (node, alice) = (&world.nodes[0], person("alice"));
    promote.run(node, &alice).await.unwrap();
    rename("Lunch").run(node, &alice).await.unwrap();
    let events = subscriber.wait_for_events(2).await;
    let ReceivedEvent::Members { role_changed, .. } = &events[0] else {
        panic!("{events:?}");
    };
    assert_eq!(role_changed, &["carol"]);
    for updated in [&events[1], &bob.wait_for_events(1).await[0]] {
        let ReceivedEvent::Updated(conversation) = updated else {
            panic!("{updated:?}");
        };
        assert_eq!(conversation["title"], "Lunch");
        assert_eq!(conversation["version"], 1);
        assert_eq!(conversation["membersVersion"], 2);
    }
}

async fn a_lost_change_of_the_title_is_delivered_after_the_resync(world: World) {
    let (subscriber, _subscription) = world.subscribe(1, &["bob"]).await;
    // As if the frame was lost.
    let update = "UPDATE conversations SET title = 'Dinner', version = version + 1 WHERE id = 'c1'";
    world.execute_sql(update).await;
    world.drop_bus_messages().await;
    let events = subscriber.wait_for_events(1).await;
    let ReceivedEvent::Updated(conversation) = &events[0] else {
        panic!("{events:?}");
    };
    assert_eq!(conversation["title"], "Dinner");
}
