//! Test of a conversation from its creation, with the requests of a chat app.

use parlor_testkit::ServerProcess;
use serde_json::{Value, json};

use super::client::{TestRequest, TestResponse, call, embedded, node, ready};
use crate::tokens::user;

fn request(who: &str, method: &str, path: &str) -> TestRequest {
    call(method, &format!("/v1/conversations{path}")).by(&user(who))
}

async fn group(node: &ServerProcess) {
    let create = request("alice", "POST", "").json(json!({
        "id": "lunch", "kind": "group", "title": "Lunch", "members": ["bob"]
    }));
    assert_eq!(create.at(node).await.created()["title"], "Lunch");
}

async fn send(node: &ServerProcess, who: &str, body: Value) -> TestResponse {
    let post = request(who, "POST", "/lunch/messages").json(body);
    post.at(node).await
}

#[tokio::test]
async fn messages_are_sent_listed_edited_deleted_and_read() {
    let node = embedded().await;
    group(&node).await;
    let again = request("alice", "POST", "").json(json!({ "id": "lunch", "kind": "group" }));
    again.at(&node).await.refused(409, "conversation_exists");
    let first = send(&node, "alice", json!({ "content": "Noon?" }))
        .await
        .created();
    assert_eq!(
        (&first["seq"], &first["senderId"]),
        (&json!(1), &json!("alice"))
    );
    let second = json!({ "content": "Yes", "metadata": { "mentions": ["bob"] } });
    assert_eq!(send(&node, "alice", second).await.created()["seq"], 2);

    let unread = call("GET", "/v1/unread").by(&user("bob")).at(&node).await;
    let expected = json!({ "conversationId": "lunch", "count": 2, "mentions": 1, "muted": false });
    assert_eq!(unread.ok()["conversations"], json!([expected]));
    let read = request("bob", "POST", "/lunch/read").json(json!({ "seq": 1 }));
    assert_eq!(
        read.at(&node).await.ok(),
        json!({ "unread": 1, "total": 1 })
    );

    let edit = request("alice", "PATCH", "/lunch/messages/1").json(json!({ "content": "One?" }));
    assert_eq!(edit.at(&node).await.ok()["content"], "One?");
    let delete = request("alice", "DELETE", "/lunch/messages/2")
        .at(&node)
        .await;
    assert_eq!(delete.ok()["content"], "");
    let page = request("bob", "GET", "/lunch/messages?after=0&limit=1")
        .at(&node)
        .await;
    let page = page.ok();
    assert_eq!(
        (&page["messages"][0]["content"], &page["hasMore"]),
        (&json!("One?"), &json!(true))
    );
    let one = request("bob", "GET", "/lunch/messages/2").at(&node).await;
    assert!(one.ok()["deletedAt"].is_string());
    let none = request("bob", "GET", "/lunch/messages/3").at(&node).await;
    none.refused(404, "not_found");
    let wrong = request("bob", "GET", "/lunch/messages/x").at(&node).await;
    wrong.refused(400, "invalid_request");
}

#[tokio::test]
async fn a_repeated_idempotency_key_returns_the_first_result() {
    let node = embedded().await;
    group(&node).await;
    let post = |key: &'static str| {
        let post = request("alice", "POST", "/lunch/messages").header("Idempotency-Key", key);
        post.json(json!({ "content": "Noon?" }))
    };
    let first = post("k 1").at(&node).await.created();
    assert_eq!(first["clientId"], "k 1");
    assert_eq!(post("k 1").at(&node).await.ok(), first);
    assert_eq!(post("k 2").at(&node).await.created()["seq"], 2);
    let long = post("x").header("Idempotency-Key", &"x".repeat(129));
    assert_eq!(long.at(&node).await.created()["seq"], 3);

    let create = || {
        let create = request("bob", "POST", "").header("Idempotency-Key", "once");
        create.json(json!({ "kind": "group", "title": "Twice" }))
    };
    let made = create().at(&node).await.created();
    assert_eq!(create().at(&node).await.ok(), made);
}

#[tokio::test]
async fn a_sender_above_the_rate_limit_gets_a_retry_delay() {
    let node = ready(node().env("PARLOR_LIMITS__MESSAGES", "2")).await;
    group(&node).await;
    for _ in 0..2 {
        send(&node, "alice", json!({ "content": "!" }))
            .await
            .created();
    }
    let refused = send(&node, "alice", json!({ "content": "!" })).await;
    refused.refused(429, "rate_limited");
    let ms = refused.json()["retryAfterMs"].as_u64().unwrap();
    let seconds = refused
        .header("retry-after")
        .unwrap()
        .parse::<u64>()
        .unwrap();
    assert_eq!(seconds, ms.div_ceil(1_000));
    send(&node, "bob", json!({ "content": "!" }))
        .await
        .created();
}

#[tokio::test]
async fn oversized_content_and_non_members_are_rejected() {
    let node = ready(node().env("PARLOR_MESSAGES__MAX_CONTENT", "10")).await;
    group(&node).await;
    let large = send(&node, "alice", json!({ "content": "12345678901" })).await;
    large.refused(413, "content_too_large");
    send(&node, "root", json!({ "content": "!" }))
        .await
        .refused(403, "not_a_member");
}
