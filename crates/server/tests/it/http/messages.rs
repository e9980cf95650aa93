//! Tests of the routes of messages.

use parlor_testkit::ServerProcess;
use serde_json::{Value, json};

use super::client::{TestResponse, embedded, node, ready, sign_in};
use super::conversations::{create_lunch_group, request};
use crate::tokens::{admin, service, user, visitor_token};

async fn send(node: &ServerProcess, by: &str, body: Value) -> TestResponse {
    let post = request(by, "POST", "/lunch/messages").json(body);
    post.at(node).await
}

/// `seq` of the messages on a page, and `hasMore`.
fn seqs(page: &Value) -> (Vec<u64>, bool) {
    let messages = page["messages"].as_array().unwrap().iter();
    let seqs = messages.map(|it| it["seq"].as_u64().unwrap());
    (seqs.collect(), page["hasMore"].as_bool().unwrap())
}

#[tokio::test]
async fn history_is_paged_in_both_directions() {
    let node = embedded().await;
    let (alice, bob) = (user("alice"), user("bob"));
    create_lunch_group(&node).await;
    for nth in 1..=5 {
        let body = json!({ "content": format!("{nth}") });
        assert_eq!(send(&node, &alice, body).await.created()["seq"], nth);
    }
    for (query, page) in [
        ("", (vec![1, 2, 3, 4, 5], false)),
        ("?limit=2", (vec![4, 5], true)),
        ("?limit=2&before=4", (vec![2, 3], true)),
        ("?limit=2&before=2", (vec![1], false)),
        ("?before=1", (vec![], false)),
        ("?limit=2&after=0", (vec![1, 2], true)),
        ("?limit=2&after=3", (vec![4, 5], false)),
        ("?after=5", (vec![], false)),
        ("?after=18446744073709551615", (vec![], false)),
        ("?limit=1&before=18446744073709551615", (vec![5], true)),
    ] {
        let answer = request(&bob, "GET", &format!("/lunch/messages{query}"));
        assert_eq!(seqs(&answer.at(&node).await.ok()), page, "{query}");
    }
    for wrong in [
        "limit=0",
        "limit=101",
        "before=1&after=1",
        "before=-1",
        "after=x",
    ] {
        let answer = request(&bob, "GET", &format!("/lunch/messages?{wrong}"));
        answer.at(&node).await.refused(400, "invalid_request");
    }
}

#[tokio::test]
async fn a_message_keeps_its_content_until_it_is_edited_or_deleted() {
    let node = embedded().await;
    let (alice, bob) = (user("alice"), user("bob"));
    create_lunch_group(&node).await;
    let body = json!({ "content": "Noon?", "clientId": "c1", "metadata": { "mood": "hungry" } });
    let sent = send(&node, &alice, body.clone()).await.created();
    let expected = json!({
        "id": sent["id"], "conversationId": "lunch", "seq": 1, "senderId": "alice", "content": "Noon?",
        "metadata": { "mood": "hungry" }, "clientId": "c1", "createdAt": sent["createdAt"], "rev": 1
    });
    assert_eq!(sent, expected);
    assert_eq!(send(&node, &alice, body).await.ok(), sent);
    // Another sender may use the same `clientId`.
    let same_key = json!({ "content": "Yes", "clientId": "c1" });
    assert_eq!(send(&node, &bob, same_key).await.created()["seq"], 2);
    let one = async |by: &str, seq: &str| {
        let get = request(by, "GET", &format!("/lunch/messages/{seq}"));
        get.at(&node).await
    };
    assert_eq!(one(&bob, "1").await.ok(), sent);

    let edit = async |by: &str, seq: &str, body: Value| {
        let patch = request(by, "PATCH", &format!("/lunch/messages/{seq}"));
        patch.json(body).at(&node).await
    };
    edit(&bob, "1", json!({ "content": "!" }))
        .await
        .refused(403, "forbidden");
    edit(&alice, "1", json!({}))
        .await
        .refused(400, "invalid_request");
    edit(&alice, "9", json!({ "content": "!" }))
        .await
        .refused(404, "not_found");
    let edited = edit(&alice, "1", json!({ "content": "One?" })).await.ok();
    assert_eq!(
        (&edited["content"], &edited["metadata"]["mood"]),
        (&json!("One?"), &json!("hungry"))
    );
    assert!(
        edited["editedAt"].is_string() && edited["rev"].as_u64() > Some(2),
        "{edited}"
    );
    assert_eq!(one(&bob, "1").await.ok(), edited);

    let delete = async |by: &str| request(by, "DELETE", "/lunch/messages/1").at(&node).await;
    delete(&bob).await.refused(403, "forbidden");
    delete(&user("slow")).await.refused(403, "not_a_member");
    let gone = delete(&alice).await.ok();
    assert_eq!(
        (&gone["content"], &gone["metadata"]),
        (&json!(""), &Value::Null)
    );
    assert!(gone["deletedAt"].is_string());
    assert_eq!(delete(&admin("root")).await.ok(), gone);
    assert_eq!(one(&bob, "1").await.ok(), gone);
    edit(&alice, "1", json!({ "content": "!" }))
        .await
        .refused(409, "message_deleted");
    for seq in ["0", "3", "18446744073709551615"] {
        one(&bob, seq).await.refused(404, "not_found");
    }
    one(&bob, "1.5").await.refused(400, "invalid_request");
}

#[tokio::test]
async fn edits_after_the_edit_window_are_rejected() {
    let node = ready(node().env("PARLOR_MESSAGES__EDIT_WINDOW", "0s")).await;
    create_lunch_group(&node).await;
    let body = json!({ "content": "Noon?" });
    send(&node, &user("bob"), body.clone()).await.created();
    let edit = async |by: &str| {
        let patch = request(by, "PATCH", "/lunch/messages/1").json(body.clone());
        patch.at(&node).await
    };
    edit(&user("bob")).await.refused(403, "edit_window_over");
    // The edit window does not apply to the owner of the group.
    edit(&user("alice")).await.ok();
}

#[tokio::test]
async fn invalid_messages_are_rejected_with_the_reason() {
    let node = embedded().await;
    let alice = user("alice");
    create_lunch_group(&node).await;
    let mentions: Vec<String> = (0..51).map(|nth| format!("user-{nth}")).collect();
    for (body, status, code) in [
        (json!({}), 400, "invalid_request"),
        (json!({ "content": "" }), 400, "invalid_request"),
        (json!({ "content": 1 }), 400, "invalid_request"),
        (json!({ "content": "\0" }), 400, "invalid_request"),
        (
            json!({ "content": "!", "metadata": [] }),
            400,
            "invalid_request",
        ),
        (
            json!({ "content": "!", "clientId": "" }),
            400,
            "invalid_request",
        ),
        (
            json!({ "content": "!", "clientId": "x".repeat(129) }),
            400,
            "invalid_request",
        ),
        (
            json!({ "content": "!", "metadata": { "mentions": ["a b"] } }),
            400,
            "invalid_id",
        ),
        (
            json!({ "content": "!", "metadata": { "mentions": mentions } }),
            400,
            "too_many",
        ),
        (
            json!({ "content": "x".repeat(100_000) }),
            413,
            "content_too_large",
        ),
        (
            json!({ "content": "x".repeat(300_000) }),
            413,
            "body_too_large",
        ),
        (
            json!({ "content": "!", "metadata": { "x": "x".repeat(100_000) } }),
            413,
            "content_too_large",
        ),
    ] {
        let refused = send(&node, &alice, body.clone()).await.refusal();
        let body: String = body.to_string().chars().take(80).collect();
        assert_eq!(refused, (status, code.to_owned()), "{body}");
    }
    let long =
        request(&alice, "POST", "/lunch/messages").header("Idempotency-Key", &"x".repeat(129));
    let long = long.json(json!({ "content": "!" })).at(&node).await;
    long.refused(400, "invalid_request");
    // Rejected messages have used no `seq`.
    let first = send(&node, &alice, json!({ "content": "!" })).await;
    assert_eq!(first.created()["seq"], 1);

    let token = visitor_token("guest");
    sign_in(&node, &token).await;
    let body = json!({ "content": "!" });
    send(&node, &token, body.clone())
        .await
        .refused(403, "read_only_session");
    send(&node, &user("slow"), body.clone())
        .await
        .refused(403, "not_a_member");
    send(&node, &service(), body.clone())
        .await
        .refused(400, "user_required");
    let post = request(&service(), "POST", "/lunch/messages").header("Parlor-User", "bob");
    assert_eq!(post.json(body).at(&node).await.created()["senderId"], "bob");
    for (method, path) in [("GET", "/none/messages"), ("GET", "/none/messages/1")] {
        let hidden = request(&alice, method, path).at(&node).await;
        hidden.refused(403, "not_a_member");
    }
}
