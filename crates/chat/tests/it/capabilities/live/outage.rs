//! Outages of the store: messages reach the subscribers of the node that committed them.

use parlor_chat::api::operation::Operation;
use parlor_chat::conversations::UpdateConversation;
use parlor_testkit::eventually;

use super::fixture::{ReceivedEvent, World};
use crate::capabilities::messages::fixture::person;

/// Removes Bob as another node does whose change this node cannot receive.
const REMOVE_BOB: [&str; 2] = [
    "DELETE FROM members WHERE conversation_id = 'c1' AND user_id = 'bob'",
    "UPDATE conversations SET members_version = members_version + 1, member_count = member_count - 1 WHERE id = 'c1'",
];

#[tokio::test]
async fn messages_reach_the_subscribers_of_their_node_while_the_store_is_unavailable() {
    let mut world = World::redis_with_short_timeout().await;
    let other_node = world.start_with_own_store("n2").await;
    world.nodes.push(other_node);
    let (here, _subscription) = world.subscribe(0, &["bob"]).await;
    let (there, _subscription_there) = world.subscribe(2, &[]).await;
    world.send(0, "alice", "before").await;
    there.wait_for_seq(1).await;
    world.server.as_mut().unwrap().kill9();

    world.send(0, "alice", "during").await;
    here.wait_for_seq(2).await;
    world
        .commit_without_applying("carol", "on a node that dies")
        .await;
    world.send(0, "alice", "after a gap").await;
    here.wait_for_seq(4).await;
    assert_eq!(here.seqs(), [1, 2, 3, 4]);
    assert_eq!(there.seqs(), [1], "the other node gets them from the store");

    for statement in REMOVE_BOB {
        world.execute_sql(statement).await;
    }
    world.send(0, "alice", "not for bob").await;
    here.wait_for_seq(5).await;
    let events = here.all();
    let left = ReceivedEvent::members(&[], &["bob"]);
    let removal = events.iter().position(|it| *it == left);
    let message = events
        .iter()
        .position(|it| matches!(it, ReceivedEvent::Message(5, _)));
    assert!(removal.unwrap() < message.unwrap(), "{events:?}");

    world.server.as_mut().unwrap().restart_empty().await;
    for node in &world.nodes {
        let replayed = async || node.messages().catch_up().await;
        eventually("unapplied messages are replayed", replayed).await;
    }
    there.wait_for_seq(5).await;
    world.send(1, "carol", "again").await;
    for subscriber in [&here, &there] {
        subscriber.wait_for_seq(6).await;
        assert_eq!(
            subscriber.seqs(),
            (1..=6).collect::<Vec<_>>(),
            "each message once"
        );
    }
}

#[tokio::test]
async fn a_title_that_is_changed_while_the_store_is_unavailable_is_published_later() {
    let mut world = World::redis_with_short_timeout().await;
    let (there, _subscription) = world.subscribe(1, &["bob"]).await;
    world.server.as_mut().unwrap().kill9();
    let rename = UpdateConversation {
        conversation_id: "c1".into(),
        title: Some("Lunch".into()),
        ..UpdateConversation::default()
    };
    let renamed = rename.run(&world.nodes[0], &person("alice")).await;
    assert_eq!(renamed.unwrap().title.as_deref(), Some("Lunch"));
    world.server.as_mut().unwrap().restart_empty().await;
    let applied = async || world.nodes[1].outbox().drain().await.map(drop);
    eventually("the update is published", applied).await;
    let updated = async || {
        let events = there.all();
        let mut titles = events.iter().filter_map(|it| match it {
            ReceivedEvent::Updated(conversation) => conversation["title"].as_str(),
            _ => None,
        });
        titles.any(|title| title == "Lunch")
    };
    eventually("the other node delivers the update", updated).await;
}
