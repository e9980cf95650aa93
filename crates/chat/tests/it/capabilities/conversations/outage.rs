//! The store is unavailable, and restarts with its old data or empty.

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::conversations::{CreateConversation, ListConversations, RemoveMember};
use parlor_testkit::eventually;
use serde_json::json;

use super::fixture::{
    ConversationsFixture, conversation, error_code_of, run_operation, service_caller, user_caller,
};
use crate::support::Fixture;

#[tokio::test]
async fn while_redis_is_down_membership_is_read_from_the_database_and_changes_are_retried() {
    let mut fixture = ConversationsFixture::with_short_timeout().await;
    let group = json!({ "id": "c1", "kind": "group", "members": ["alice", "bob"] });
    run_operation::<CreateConversation>(&fixture.nodes[0], &service_caller(), group)
        .await
        .unwrap();
    assert!(fixture.is_member_on_node(0, "c1", "bob").await);
    fixture.server.as_mut().unwrap().kill9();

    let node = &fixture.nodes[0];
    let bob = json!({ "conversationId": "c1", "userId": "bob" });
    let refused = run_operation::<RemoveMember>(node, &service_caller(), bob.clone())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), ErrorCode::StoreUnavailable);
    assert!(
        refused.to_string().contains("the change is saved"),
        "{refused}"
    );
    assert!(node.outbox().drain().await.is_err());
    assert!(
        !fixture.is_member_on_node(0, "c1", "bob").await,
        "the answer is read from the row"
    );
    assert!(fixture.is_member_on_node(1, "c1", "alice").await);
    let version = fixture.version("c1").await;
    let found = node
        .conversations()
        .participants_at(&conversation("c1"), version)
        .await;
    assert_eq!(found.unwrap().len(), 1);
    let again = error_code_of::<RemoveMember>(node, &service_caller(), bob).await;
    assert_eq!(again, None, "a repeated call changes nothing");
    let listed = run_operation::<ListConversations>(node, &user_caller("alice"), json!({}))
        .await
        .unwrap();
    assert_eq!(listed.conversations.len(), 1);

    fixture.server.as_mut().unwrap().restart_empty().await;
    let node = &fixture.nodes[0];
    eventually("the outbox is published", async || {
        node.outbox().drain().await.map(drop)
    })
    .await;
    for nth in 0..3 {
        assert!(!fixture.is_member_on_node(nth, "c1", "bob").await);
        assert!(fixture.is_member_on_node(nth, "c1", "alice").await);
    }
}

#[tokio::test]
async fn a_failed_membership_publish_is_retried_by_the_background_job() {
    let fixture = ConversationsFixture::redis(()).await;
    let group = json!({ "id": "c1", "kind": "group", "members": ["alice", "bob"] });
    run_operation::<CreateConversation>(&fixture.nodes[0], &service_caller(), group)
        .await
        .unwrap();
    assert!(fixture.is_member_on_node(1, "c1", "bob").await);
    let generation = fixture.keys.membership_generation(&conversation("c1"));
    // A key of a foreign type makes the script fail.
    let mut del = redis::cmd("DEL");
    del.arg(&generation)
        .exec_async(&mut fixture.store.clone())
        .await
        .unwrap();
    let mut list = redis::cmd("LPUSH");
    list.arg(&generation)
        .arg("x")
        .exec_async(&mut fixture.store.clone())
        .await
        .unwrap();
    let bob = json!({ "conversationId": "c1", "userId": "bob" });
    let failed = run_operation::<RemoveMember>(&fixture.nodes[0], &service_caller(), bob).await;
    assert!(failed.is_err());
    assert_eq!(
        fixture.cached_membership("c1", "bob").await.as_deref(),
        Some("1")
    );
    let mut del = redis::cmd("DEL");
    del.arg(&generation)
        .exec_async(&mut fixture.store.clone())
        .await
        .unwrap();
    assert_eq!(fixture.nodes[0].outbox().drain().await.unwrap(), 1);
    assert_eq!(fixture.cached_membership("c1", "bob").await, None);
    assert!(!fixture.is_member_on_node(1, "c1", "bob").await);
}
