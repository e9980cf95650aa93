//! Deletion of conversations with many messages.

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::conversations::{
    CreateConversation, DeleteConversation, ListConversations, ListMembers,
};
use parlor_chat::database::{Database, PerBackend};
use parlor_chat::messages::{EditMessage, GetMessage, ListMessages, SendMessage};
use parlor_chat::unread::GetUnread;
use parlor_testkit::eventually;
use serde_json::{Value, json};

use super::fixture::{
    ConversationsFixture, error_code_of, execute, execute_in, run_operation, service_caller,
    user_caller,
};
use super::on_every_engine;

on_every_engine! {
    a_deletion_removes_no_message_and_makes_all_of_them_invisible;
    another_node_continues_the_removal_of_an_interrupted_node;
    nodes_that_remove_rows_at_the_same_time_remove_all_of_them;
}

/// Several pages, and a part of one.
const MESSAGES: i64 = 1_700;
const COUNT_MESSAGES: &str = "SELECT COUNT(*) FROM messages WHERE conversation_id = 'd1'";
const COUNT_MENTIONS: &str = "SELECT COUNT(*) FROM mentions WHERE conversation_id = 'd1'";
const COUNT_OTHER_ROWS: &str = "
    SELECT (SELECT COUNT(*) FROM messages WHERE conversation_id = 'd2')
        + (SELECT COUNT(*) FROM mentions WHERE conversation_id = 'd2')";
const COUNT_PENDING: &str =
    "SELECT COUNT(*) FROM deleted_conversations WHERE rows_removed_at IS NULL";

async fn count(database: &Database, statement: &'static str) -> i64 {
    let count = match database.reader() {
        PerBackend::Sqlite(pool) => sqlx::query_scalar(statement).fetch_one(pool).await,
        PerBackend::Postgres(pool) => sqlx::query_scalar(statement).fetch_one(pool).await,
    };
    count.unwrap()
}

/// Creates two direct conversations of Alice with many messages that mention her, and deletes the first one.
async fn delete_with_many_messages(fixture: &ConversationsFixture) -> Database {
    let alice = user_caller("alice");
    for (id, other) in [("d1", "bob"), ("d2", "carol")] {
        let direct = json!({ "id": id, "kind": "direct", "members": [other] });
        let created = run_operation::<CreateConversation>(&fixture.nodes[0], &alice, direct);
        created.await.unwrap();
    }
    let database = fixture.database().await;
    for statement in [
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1700)
        INSERT INTO messages
            (conversation_id, seq, id, sender_id, sender_role, content, client_id, created_at, edited_at, rev)
        SELECT c.id, n, c.id || '-' || n, 'bob', 'user', 'text', 'x' || n, 1000, 2000, 2 * n
        FROM numbers CROSS JOIN conversations c",
        "INSERT INTO mentions (user_id, conversation_id, seq)
        SELECT 'alice', conversation_id, seq FROM messages WHERE seq % 2 = 0",
        "UPDATE conversations SET last_seq = 1700, rev = 3400",
    ] {
        execute(&database, statement).await;
    }
    let d1 = json!({ "conversationId": "d1" });
    let newest = run_operation::<ListMessages>(&fixture.nodes[1], &alice, d1.clone()).await;
    assert_eq!(newest.unwrap().messages.last().unwrap().seq, 1_700);
    run_operation::<DeleteConversation>(&fixture.nodes[0], &alice, d1)
        .await
        .unwrap();
    database
}

/// Runs an operation; returns the reply as JSON.
async fn reply<O>(fixture: &ConversationsFixture, who: &str, request: Value) -> Value
where
    O: parlor_chat::api::operation::Operation + serde::de::DeserializeOwned,
    O::Reply: serde::Serialize,
{
    let reply = run_operation::<O>(&fixture.nodes[1], &user_caller(who), request).await;
    serde_json::to_value(reply.unwrap()).unwrap()
}

async fn a_deletion_removes_no_message_and_makes_all_of_them_invisible(
    fixture: ConversationsFixture,
) {
    let database = delete_with_many_messages(&fixture).await;
    assert_eq!(count(&database, COUNT_MESSAGES).await, MESSAGES);
    let members = "SELECT COUNT(*) FROM members WHERE conversation_id = 'd1'";
    assert_eq!(count(&database, members).await, 0);

    let listed = reply::<ListConversations>(&fixture, "alice", json!({})).await;
    let ids = listed["conversations"].as_array().unwrap().iter();
    let ids: Vec<&Value> = ids.map(|it| &it["id"]).collect();
    assert_eq!(ids, ["d2"]);
    let unread = reply::<GetUnread>(&fixture, "alice", json!({})).await;
    assert_eq!(unread["total"], 1_700);
    let node = &fixture.nodes[2];
    let (alice, bob, service) = (user_caller("alice"), user_caller("bob"), service_caller());
    let d1 = json!({ "conversationId": "d1" });
    let first = json!({ "conversationId": "d1", "seq": 1 });
    let edit = json!({ "conversationId": "d1", "seq": 1, "content": "other" });
    let repeated = json!({ "conversationId": "d1", "content": "text", "clientId": "x1" });
    let not_a_member = Some(ErrorCode::NotAMember);
    let not_found = Some(ErrorCode::NotFound);
    for (code, expected) in [
        (
            error_code_of::<ListMessages>(node, &alice, d1.clone()).await,
            not_a_member,
        ),
        (
            error_code_of::<GetMessage>(node, &alice, first.clone()).await,
            not_a_member,
        ),
        (
            error_code_of::<EditMessage>(node, &bob, edit.clone()).await,
            not_a_member,
        ),
        (
            error_code_of::<SendMessage>(node, &bob, repeated).await,
            not_a_member,
        ),
        (
            error_code_of::<GetMessage>(node, &service, first).await,
            not_found,
        ),
        (
            error_code_of::<EditMessage>(node, &service, edit).await,
            not_found,
        ),
        (
            error_code_of::<ListMembers>(node, &service, d1.clone()).await,
            not_found,
        ),
    ] {
        assert_eq!(code, expected);
    }
    let history = run_operation::<ListMessages>(node, &service, d1).await;
    assert_eq!(history.unwrap().messages, []);
    // The id stays taken, and the pair is free.
    let same_id = json!({ "id": "d1", "kind": "direct", "members": ["bob"] });
    let refused = error_code_of::<CreateConversation>(node, &alice, same_id).await;
    assert_eq!(refused, Some(ErrorCode::ConversationExists));
    let direct = json!({ "kind": "direct", "members": ["bob"] });
    let created = run_operation::<CreateConversation>(node, &alice, direct).await;
    assert!(created.unwrap().created);
}

async fn another_node_continues_the_removal_of_an_interrupted_node(fixture: ConversationsFixture) {
    let database = delete_with_many_messages(&fixture).await;
    let removal = fixture.nodes[0].conversations().remove_deleted_rows();
    let first_page = eventually("a page is removed", async || {
        count(&database, COUNT_MESSAGES).await < MESSAGES
    });
    tokio::select! {
        () = first_page => {}
        removed = removal => panic!("all pages were removed without a pause: {removed:?}"),
    }
    assert_eq!(count(&database, COUNT_PENDING).await, 1);
    fixture.nodes[1]
        .conversations()
        .remove_deleted_rows()
        .await
        .unwrap();
    for statement in [COUNT_MESSAGES, COUNT_MENTIONS, COUNT_PENDING] {
        assert_eq!(count(&database, statement).await, 0, "{statement}");
    }
    assert_eq!(
        count(&database, COUNT_OTHER_ROWS).await,
        MESSAGES + MESSAGES / 2
    );
}

async fn nodes_that_remove_rows_at_the_same_time_remove_all_of_them(fixture: ConversationsFixture) {
    let database = delete_with_many_messages(&fixture).await;
    if let PerBackend::Postgres(_) = database.reader() {
        let mut page_of_other_node = database.begin().await.unwrap();
        let lock = "SELECT id FROM deleted_conversations FOR UPDATE";
        execute_in(&mut page_of_other_node, lock).await;
        let conversations = fixture.nodes[0].conversations();
        conversations.remove_deleted_rows().await.unwrap();
        assert_eq!(count(&database, COUNT_MESSAGES).await, MESSAGES);
    }
    eventually("all rows are removed", async || {
        let [one, other] = [0, 1].map(|nth| fixture.nodes[nth].conversations());
        let (one, other) = tokio::join!(one.remove_deleted_rows(), other.remove_deleted_rows());
        one.unwrap();
        other.unwrap();
        count(&database, COUNT_PENDING).await == 0
    })
    .await;
    for statement in [COUNT_MESSAGES, COUNT_MENTIONS] {
        assert_eq!(count(&database, statement).await, 0, "{statement}");
    }
}
