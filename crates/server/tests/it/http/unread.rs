//! Tests of the routes of unread counts and receipts.

use parlor_testkit::ServerProcess;
use serde_json::{Value, json};

use super::client::{TestResponse, call, embedded, sign_in};
use super::conversations::{create_lunch_group, request};
use crate::tokens::{service, user, visitor_token};

async fn mark(node: &ServerProcess, by: &str, what: &str, body: Value) -> TestResponse {
    let post = request(by, "POST", &format!("/lunch/{what}")).json(body);
    post.at(node).await
}

async fn unread(node: &ServerProcess, by: &str) -> Value {
    call("GET", "/v1/unread").by(by).at(node).await.ok()
}

async fn three_messages(node: &ServerProcess) {
    create_lunch_group(node).await;
    for body in [
        json!({ "content": "Noon?" }),
        json!({ "content": "Bob?", "metadata": { "mentions": ["bob"] } }),
        json!({ "content": "?" }),
    ] {
        let send = request(&user("alice"), "POST", "/lunch/messages").json(body);
        send.at(node).await.created();
    }
}

#[tokio::test]
async fn unread_counts_follow_read_marks_and_mutes() {
    let node = embedded().await;
    let (alice, bob) = (user("alice"), user("bob"));
    three_messages(&node).await;
    let nothing = json!({ "total": 0, "mentions": 0, "conversations": [] });
    assert_eq!(unread(&node, &alice).await, nothing);
    let lunch = |count: u64, mentions: u64, muted: bool| json!([{ "conversationId": "lunch", "count": count, "mentions": mentions, "muted": muted }]);
    let all = json!({ "total": 3, "mentions": 1, "conversations": lunch(3, 1, false) });
    assert_eq!(unread(&node, &bob).await, all);

    let badge = |unread: u64, total: u64| json!({ "unread": unread, "total": total });
    let read = async |body| mark(&node, &bob, "read", body).await.ok();
    assert_eq!(read(json!({ "seq": 2 })).await, badge(1, 1));
    assert_eq!(read(json!({ "seq": 1 })).await, badge(1, 1));
    assert_eq!(read(json!({})).await, badge(0, 0));
    assert_eq!(unread(&node, &bob).await, nothing);
    let again = mark(&node, &bob, "unread", json!({ "seq": 2 })).await;
    assert_eq!(again.ok(), badge(2, 2));
    assert_eq!(
        unread(&node, &bob).await["conversations"],
        lunch(2, 1, false)
    );

    let mute = request(&bob, "PUT", "/lunch/members/bob");
    let mute = mute.json(json!({ "mutedUntil": "2099-01-01T00:00:00.000Z" }));
    mute.at(&node).await.ok();
    let muted = json!({ "total": 0, "mentions": 0, "conversations": lunch(2, 1, true) });
    assert_eq!(unread(&node, &bob).await, muted);
    assert_eq!(read(json!({ "seq": 9_000 })).await, badge(0, 0));
}

#[tokio::test]
async fn receipts_contain_the_positions_of_each_member() {
    let node = embedded().await;
    let (alice, bob) = (user("alice"), user("bob"));
    three_messages(&node).await;
    let delivered = mark(&node, &bob, "delivered", json!({ "seq": 2 })).await;
    assert_eq!(delivered.ok(), json!({ "unread": 3, "total": 3 }));
    mark(&node, &bob, "read", json!({ "seq": 1 })).await.ok();
    let of_alice = json!({ "userId": "alice", "deliveredSeq": 3, "readSeq": 3 });
    let of_bob = json!({ "userId": "bob", "deliveredSeq": 2, "readSeq": 1 });
    let receipts = async |query: &str| {
        let get = request(&alice, "GET", &format!("/lunch/receipts{query}"));
        get.at(&node).await
    };
    let all = json!({ "receipts": [of_alice, of_bob] });
    assert_eq!(receipts("").await.ok(), all);
    let first = receipts("?limit=1").await.ok();
    assert_eq!(first["receipts"], json!([of_alice]));
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = receipts(&format!("?limit=1&cursor={cursor}")).await.ok();
    assert_eq!(rest, json!({ "receipts": [of_bob] }));
    receipts("?limit=0").await.refused(400, "invalid_request");
    receipts("?limit=1001").await.refused(400, "too_many");
    receipts("?cursor=a%20b").await.refused(400, "invalid_id");
    // Marking as unread does not change the read receipts that other members see.
    mark(&node, &bob, "unread", json!({ "seq": 1 })).await.ok();
    assert_eq!(receipts("").await.ok(), all);
}

#[tokio::test]
async fn positions_belong_to_members_who_may_write() {
    let node = embedded().await;
    three_messages(&node).await;
    let token = visitor_token("guest");
    sign_in(&node, &token).await;
    for what in ["read", "unread", "delivered"] {
        let seq = || json!({ "seq": 1 });
        let refused = mark(&node, &user("slow"), what, seq()).await;
        refused.refused(403, "not_a_member");
        let refused = mark(&node, &token, what, seq()).await;
        refused.refused(403, "read_only_session");
        let refused = mark(&node, &service(), what, seq()).await;
        refused.refused(400, "user_required");
        let refused = mark(&node, &user("bob"), what, json!({ "seq": -1 })).await;
        refused.refused(400, "invalid_request");
        let none = request(&user("bob"), "POST", &format!("/none/{what}")).json(seq());
        none.at(&node).await.refused(403, "not_a_member");
    }
    for body in [json!({}), json!({ "seq": 0 })] {
        let refused = mark(&node, &user("bob"), "unread", body).await;
        refused.refused(400, "invalid_request");
    }
    let receipts = request(&user("slow"), "GET", "/lunch/receipts")
        .at(&node)
        .await;
    receipts.refused(403, "not_a_member");
    let nobody = call("GET", "/v1/unread").by(&service()).at(&node).await;
    nobody.refused(400, "user_required");
    // A visitor may read the own unread counts.
    assert_eq!(unread(&node, &token).await["total"], 0);
}
