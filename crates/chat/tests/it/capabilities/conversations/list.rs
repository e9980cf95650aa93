//! The list of a user's conversations.

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::conversations::{CreateConversation, ListConversations, PutMember};
use parlor_chat::presence::SetPresence;
use serde_json::{Value, json};

use super::fixture::{
    ConversationsFixture, error_code_of, execute, run_operation, service_caller, user_caller,
};
use super::on_every_engine;

on_every_engine! {
    the_conversation_list_contains_last_message_unread_and_presence;
    the_list_is_paged_by_last_activity;
}

async fn list(fixture: &ConversationsFixture, who: &str, request: Value) -> Value {
    let listed =
        run_operation::<ListConversations>(&fixture.nodes[0], &user_caller(who), request).await;
    serde_json::to_value(listed.unwrap()).unwrap()
}

pub async fn the_conversation_list_contains_last_message_unread_and_presence(
    fixture: ConversationsFixture,
) {
    let node = &fixture.nodes[0];
    let alice = user_caller("alice");
    let direct = json!({ "id": "d1", "kind": "direct", "members": ["bob"] });
    run_operation::<CreateConversation>(node, &alice, direct)
        .await
        .unwrap();
    let group = json!({ "id": "g1", "kind": "group", "title": "Old", "history": "since_join", "members": ["bob"] });
    run_operation::<CreateConversation>(node, &alice, group)
        .await
        .unwrap();
    let online = json!({ "userId": "bob", "status": "online" });
    run_operation::<SetPresence>(node, &user_caller("bob"), online)
        .await
        .unwrap();
    let database = fixture.database().await;
    for statement in [
        "INSERT INTO messages (conversation_id, seq, id, sender_id, sender_role, content, metadata, created_at, rev)
            VALUES ('d1', 1, 'm1', 'bob', 'user', 'Hi', NULL, 1000, 1),
                ('d1', 2, 'm2', 'bob', 'user', 'Alice!', '{\"mentions\":[\"alice\"]}', 2000, 2),
                ('g1', 1, 'm3', 'bob', 'user', 'gone', '{}', 3000, 1)",
        "INSERT INTO mentions (user_id, conversation_id, seq) VALUES ('alice', 'd1', 2)",
        "UPDATE messages SET deleted_at = 4000, rev = 2 WHERE id = 'm3'",
        "UPDATE conversations SET last_seq = 2, rev = 2, last_at = 2000 WHERE id = 'd1'",
        "UPDATE conversations SET last_seq = 1, rev = 2, last_at = 1000 WHERE id = 'g1'",
    ] {
        execute(&database, statement).await;
    }
    let listed = list(&fixture, "alice", json!({})).await;
    assert_eq!(listed.get("nextCursor"), None);
    let d1 = &listed["conversations"][0];
    for (field, value) in [
        ("id", json!("d1")),
        ("kind", json!("direct")),
        ("role", json!("owner")),
        ("lastSeq", json!(2)),
        ("unread", json!(2)),
        ("mentions", json!(1)),
        ("memberCount", json!(2)),
    ] {
        assert_eq!(d1[field], value, "{field}");
    }
    assert_eq!(d1["lastMessage"]["content"], "Alice!");
    assert_eq!(
        d1["lastMessage"]["metadata"],
        json!({ "mentions": ["alice"] })
    );
    assert_eq!(d1["lastMessage"]["createdAt"], "1970-01-01T00:00:02.000Z");
    assert_eq!(d1["other"]["userId"], "bob");
    assert_eq!(d1["other"]["status"], "online");
    assert_eq!(d1.get("mutedUntil"), None);
    let g1 = &listed["conversations"][1];
    assert_eq!(g1["title"], "Old");
    assert_eq!(g1["lastMessage"]["content"], "");
    assert_eq!(g1["lastMessage"]["deletedAt"], "1970-01-01T00:00:04.000Z");
    assert_eq!(g1["lastMessage"].get("metadata"), None);
    assert_eq!(g1.get("other"), None);

    // With the history setting `since_join`, a later member sees no earlier message, and starts with no unread
    // messages.
    let carol = json!({ "conversationId": "g1", "userId": "carol" });
    run_operation::<PutMember>(node, &alice, carol)
        .await
        .unwrap();
    let until = "2999-01-01T00:00:00.000Z";
    let mute = json!({ "conversationId": "g1", "userId": "carol", "mutedUntil": until });
    run_operation::<PutMember>(node, &user_caller("carol"), mute)
        .await
        .unwrap();
    let listed = list(&fixture, "carol", json!({})).await;
    let g1 = &listed["conversations"][0];
    assert_eq!(g1.get("lastMessage"), None);
    assert_eq!((&g1["unread"], &g1["lastSeq"]), (&json!(0), &json!(1)));
    assert_eq!(g1["mutedUntil"], until);
    let nobody = error_code_of::<ListConversations>(node, &service_caller(), json!({})).await;
    assert_eq!(nobody, Some(ErrorCode::UserRequired));
}

pub async fn the_list_is_paged_by_last_activity(fixture: ConversationsFixture) {
    let node = &fixture.nodes[0];
    for nth in 0..25 {
        let group = json!({ "id": format!("c{nth:02}"), "kind": "group" });
        run_operation::<CreateConversation>(node, &user_caller("alice"), group)
            .await
            .unwrap();
    }
    // Some conversations have the same time.
    let database = fixture.database().await;
    let times = "UPDATE conversations SET last_at = 1000 + CASE WHEN id > 'c19' THEN 1 ELSE 0 END";
    execute(&database, times).await;
    let mut found = Vec::new();
    let mut request = json!({ "limit": 7 });
    loop {
        let page = list(&fixture, "alice", request.clone()).await;
        let ids = page["conversations"].as_array().unwrap().iter();
        found.extend(ids.map(|it| it["id"].as_str().unwrap().to_owned()));
        let Some(cursor) = page.get("nextCursor") else {
            break;
        };
        request["cursor"] = cursor.clone();
    }
    let expected = (20..25).chain(0..20).map(|nth| format!("c{nth:02}"));
    assert_eq!(found, expected.collect::<Vec<_>>());
    let made_up = json!({ "cursor": "6162" });
    let refused = error_code_of::<ListConversations>(node, &user_caller("alice"), made_up).await;
    assert_eq!(refused, Some(ErrorCode::InvalidRequest));
}
