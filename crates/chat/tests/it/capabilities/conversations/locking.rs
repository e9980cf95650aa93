//! Decisions under the lock of the row, and the publishing of changes.

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::conversations::{CreateConversation, PutMember, RemoveMember, UpdateConversation};
use parlor_chat::database::PerBackend;
use parlor_testkit::eventually;
use serde_json::json;

use super::fixture::{
    ConversationsFixture, conversation, error_code_of, run_operation, service_caller, user_caller,
};
use super::on_every_engine;

const WAITING: &str = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted";

on_every_engine! {
    a_read_only_session_cannot_remove_members;
    a_member_removed_during_the_call_cannot_change_the_conversation;
    a_change_that_cannot_be_published_does_not_block_other_conversations;
}

async fn group(fixture: &ConversationsFixture, id: &str) {
    let group = json!({ "id": id, "kind": "group", "members": ["alice", "bob"] });
    let created =
        run_operation::<CreateConversation>(&fixture.nodes[0], &service_caller(), group).await;
    created.unwrap();
}

async fn a_read_only_session_cannot_remove_members(fixture: ConversationsFixture) {
    group(&fixture, "c1").await;
    let node = &fixture.nodes[0];
    for who in ["alice", "bob"] {
        let mut visitor = user_caller(who);
        visitor.anonymous = true;
        let bob = json!({ "conversationId": "c1", "userId": "bob" });
        let removed = error_code_of::<RemoveMember>(node, &visitor, bob).await;
        assert_eq!(removed, Some(ErrorCode::ReadOnlySession), "{who}");
    }
    assert_eq!(fixture.members("c1").await, ["alice owner", "bob member"]);
}

async fn a_member_removed_during_the_call_cannot_change_the_conversation(
    fixture: ConversationsFixture,
) {
    group(&fixture, "c1").await;
    let node = &fixture.nodes[0];
    let admin = json!({ "conversationId": "c1", "userId": "bob", "role": "admin" });
    run_operation::<PutMember>(node, &service_caller(), admin)
        .await
        .unwrap();

    let database = fixture.database().await;
    let mut tx = database.begin().await.unwrap();
    for statement in [
        "UPDATE conversations SET member_count = 1 WHERE id = 'c1'",
        "DELETE FROM members WHERE user_id = 'bob'",
    ] {
        super::fixture::execute_in(&mut tx, statement).await;
    }
    let title = json!({ "conversationId": "c1", "title": "mine" });
    let bob = user_caller("bob");
    let update = error_code_of::<UpdateConversation>(node, &bob, title);
    let removal = async {
        // The row decides, whatever was checked before. A waiting SQLite writer cannot be observed.
        if let PerBackend::Postgres(pool) = database.reader() {
            eventually("the update waits for the row lock", async || {
                let waiting = sqlx::query_scalar::<_, i64>(WAITING).fetch_one(pool).await;
                waiting.unwrap() > 0
            })
            .await;
        }
        tx.commit().await.unwrap();
    };
    let (refused, ()) = tokio::join!(update, removal);
    assert_eq!(refused, Some(ErrorCode::NotAMember));
    let head = node
        .conversations()
        .find_conversation(&conversation("c1"))
        .await;
    assert_eq!(head.unwrap().unwrap().title, None);
}

async fn a_change_that_cannot_be_published_does_not_block_other_conversations(
    fixture: ConversationsFixture,
) {
    let node = &fixture.nodes[0];
    for id in ["c1", "c2"] {
        group(&fixture, id).await;
        assert!(fixture.is_member_on_node(1, id, "bob").await);
        let generation = fixture.keys.membership_generation(&conversation(id));
        for command in [
            redis::cmd("DEL").arg(&generation),
            redis::cmd("RPUSH").arg(&generation).arg("x"),
        ] {
            let done = command.exec_async(&mut fixture.store.clone()).await;
            done.unwrap();
        }
        let bob = json!({ "conversationId": id, "userId": "bob" });
        let removed = run_operation::<RemoveMember>(node, &service_caller(), bob).await;
        assert!(removed.is_err(), "{id}");
        assert_eq!(
            fixture.cached_membership(id, "bob").await.as_deref(),
            Some("1")
        );
    }
    let mut del = redis::cmd("DEL");
    del.arg(fixture.keys.membership_generation(&conversation("c2")));
    del.exec_async(&mut fixture.store.clone()).await.unwrap();
    let applied = node.outbox().drain().await.unwrap();
    assert_eq!(applied, 1, "the other change cannot be published");
    assert_eq!(fixture.cached_membership("c2", "bob").await, None);
}
