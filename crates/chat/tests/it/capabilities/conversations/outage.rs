//! The store is unavailable, and restarts with its old data or empty.

use parlor_chat::api::error_code::Code;
use parlor_chat::conversations::{CreateConversation, ListConversations, RemoveMember};
use parlor_testkit::eventually;
use serde_json::json;

use super::fixture::{World, ask, code, conversation, person, service};

#[tokio::test]
async fn while_redis_is_down_membership_is_read_from_the_database_and_changes_are_retried() {
    let mut world = World::impatient().await;
    let group = json!({ "id": "c1", "kind": "group", "members": ["alice", "bob"] });
    ask::<CreateConversation>(&world.nodes[0], &service(), group)
        .await
        .unwrap();
    assert!(world.is_member_on_node(0, "c1", "bob").await);
    world.server.as_mut().unwrap().kill9();

    let node = &world.nodes[0];
    let bob = json!({ "conversationId": "c1", "userId": "bob" });
    let refused = ask::<RemoveMember>(node, &service(), bob.clone())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::StoreUnavailable);
    assert!(
        refused.to_string().contains("the change is saved"),
        "{refused}"
    );
    assert!(node.conversations().settle().await.is_err());
    assert!(
        !world.is_member_on_node(0, "c1", "bob").await,
        "the answer is read from the row"
    );
    assert!(world.is_member_on_node(1, "c1", "alice").await);
    let version = world.version("c1").await;
    let found = node
        .conversations()
        .participants_at(&conversation("c1"), version)
        .await;
    assert_eq!(found.unwrap().len(), 1);
    let again = code::<RemoveMember>(node, &service(), bob).await;
    assert_eq!(
        again,
        Some(Code::StoreUnavailable),
        "a repeated call returns the same error"
    );
    let listed = ask::<ListConversations>(node, &person("alice"), json!({}))
        .await
        .unwrap();
    assert_eq!(listed.conversations.len(), 1);

    world.server.as_mut().unwrap().restart_empty().await;
    let node = &world.nodes[0];
    eventually("the outbox is published", async || {
        node.conversations().settle().await
    })
    .await;
    for nth in 0..3 {
        assert!(!world.is_member_on_node(nth, "c1", "bob").await);
        assert!(world.is_member_on_node(nth, "c1", "alice").await);
    }
}

#[tokio::test]
async fn a_failed_membership_publish_is_retried_by_the_background_job() {
    let world = World::redis().await;
    let group = json!({ "id": "c1", "kind": "group", "members": ["alice", "bob"] });
    ask::<CreateConversation>(&world.nodes[0], &service(), group)
        .await
        .unwrap();
    assert!(world.is_member_on_node(1, "c1", "bob").await);
    let generation = world.keys.membership_generation(&conversation("c1"));
    // A key of a foreign type makes the script fail.
    let mut del = redis::cmd("DEL");
    del.arg(&generation)
        .exec_async(&mut world.store.clone())
        .await
        .unwrap();
    let mut list = redis::cmd("LPUSH");
    list.arg(&generation)
        .arg("x")
        .exec_async(&mut world.store.clone())
        .await
        .unwrap();
    let bob = json!({ "conversationId": "c1", "userId": "bob" });
    let failed = ask::<RemoveMember>(&world.nodes[0], &service(), bob).await;
    assert!(failed.is_err());
    assert_eq!(
        world.cached_membership("c1", "bob").await.as_deref(),
        Some("1")
    );
    let mut del = redis::cmd("DEL");
    del.arg(&generation)
        .exec_async(&mut world.store.clone())
        .await
        .unwrap();
    world.nodes[0].conversations().settle().await.unwrap();
    assert_eq!(world.cached_membership("c1", "bob").await, None);
    assert!(!world.is_member_on_node(1, "c1", "bob").await);
}
