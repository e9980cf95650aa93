//! Another service caches memberships in the same keys.

use parlor_chat::conversations::CreateConversation;
use serde_json::json;

use super::fixture::{ConversationsFixture, conversation, run_operation, service_caller, user};
use super::on_every_engine;

on_every_engine! {
    the_answer_of_another_service_is_neither_used_nor_replaced_without_rows;
    a_membership_key_of_a_foreign_type_stays;
}

async fn group(fixture: &ConversationsFixture, members: &[&str]) {
    let request = json!({ "id": "c1", "kind": "group", "open": true, "members": members });
    let node = &fixture.nodes[0];
    run_operation::<CreateConversation>(node, &service_caller(), request)
        .await
        .unwrap();
}

pub async fn the_answer_of_another_service_is_neither_used_nor_replaced_without_rows(
    fixture: ConversationsFixture,
) {
    let (c1, alice, bob) = (conversation("c1"), user("alice"), user("bob"));
    let of_alice = fixture.keys.membership(&c1, &alice);
    // A conversation that only the other service has.
    fixture.set(&of_alice, "1").await;
    for _ in 0..2 {
        assert!(!fixture.is_member_on_node(0, "c1", "alice").await);
    }
    assert_eq!(
        fixture.cached_membership("c1", "alice").await.as_deref(),
        Some("1")
    );
    // Once Parlor has rows, they decide, even if the other service writes another answer after Parlor has cached its own.
    group(&fixture, &["alice"]).await;
    assert!(fixture.is_member_on_node(0, "c1", "alice").await);
    assert!(!fixture.is_member_on_node(0, "c1", "bob").await);
    fixture.set(&of_alice, "0").await;
    fixture.set(&fixture.keys.membership(&c1, &bob), "1").await;
    for node in 0..3 {
        assert!(fixture.is_member_on_node(node, "c1", "alice").await);
        assert!(!fixture.is_member_on_node(node, "c1", "bob").await);
    }
    assert_eq!(
        fixture.cached_membership("c1", "bob").await.as_deref(),
        Some("0")
    );
}

pub async fn a_membership_key_of_a_foreign_type_stays(fixture: ConversationsFixture) {
    group(&fixture, &["alice"]).await;
    let key = fixture.keys.membership(&conversation("c1"), &user("alice"));
    let mut push = redis::cmd("RPUSH");
    push.arg(&key).arg("x");
    push.exec_async(&mut fixture.store.clone()).await.unwrap();
    for _ in 0..2 {
        assert!(fixture.is_member_on_node(0, "c1", "alice").await);
    }
    let length = redis::cmd("LLEN").arg(&key).take();
    let length: u64 = length
        .query_async(&mut fixture.store.clone())
        .await
        .unwrap();
    assert_eq!(length, 1);
}
