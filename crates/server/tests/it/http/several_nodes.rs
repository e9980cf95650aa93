//! Tests on Redis and PostgreSQL: two nodes, and an outage of either server.

use parlor_testkit::{Postgres, Redis, ServerProcess, ServerProcessOptions, eventually};
use serde_json::{Value, json};

use super::client::{TestResponse, call, node, ready};
use super::conversations::{create_lunch_group, request};
use crate::tokens::{admin, user};

async fn send(node: &ServerProcess, by: &str, content: &str) -> TestResponse {
    let post = request(by, "POST", "/lunch/messages").json(json!({ "content": content }));
    post.at(node).await
}

fn on(redis: &Redis, database: &str) -> ServerProcessOptions {
    node()
        .env("PARLOR_STORE__URL", redis.url())
        .env("PARLOR_DATABASE__URL", database)
        .env("PARLOR_STORE__TIMEOUT", "10s")
}

#[tokio::test]
async fn two_nodes_on_one_store_share_messages_unread_counts_and_members() {
    let (redis, postgres) = tokio::join!(Redis::start(), Postgres::start());
    let database = postgres.create_database().await;
    let (one, other) = tokio::join!(ready(on(&redis, &database)), ready(on(&redis, &database)));
    let (alice, bob) = (user("alice"), user("bob"));
    create_lunch_group(&one).await;
    let first = send(&one, &alice, "Noon?").await.created();
    let second = send(&other, &bob, "Yes").await.created();
    assert_eq!((&first["seq"], &second["seq"]), (&json!(1), &json!(2)));
    for (node, by) in [(&one, &bob), (&other, &alice)] {
        let page = request(by, "GET", "/lunch/messages").at(node).await.ok();
        assert_eq!(page["messages"], json!([first, second]));
    }
    let unread = call("GET", "/v1/unread").by(&alice).at(&other).await.ok();
    assert_eq!(unread["total"], 1);
    let read = request(&alice, "POST", "/lunch/read").at(&one).await.ok();
    assert_eq!(read, json!({ "unread": 0, "total": 0 }));
    let removed = request(&alice, "DELETE", "/lunch/members/bob")
        .at(&one)
        .await;
    removed.ok();
    send(&other, &bob, "?").await.refused(403, "not_a_member");
    let list = request(&bob, "GET", "/lunch/messages").at(&other).await;
    list.refused(403, "not_a_member");

    let block = call("PATCH", "/v1/admin/sessions/bob").by(&admin("root"));
    let block = block.json(json!({ "status": "blocked", "reason": "noise" }));
    block.at(&one).await.ok();
    let presence = || call("GET", "/v1/presence/count").by(&bob);
    presence().at(&one).await.refused(403, "session_blocked");
    eventually("the other node rejects bob", async || {
        presence().at(&other).await.status == 403
    })
    .await;
}

#[tokio::test]
async fn while_the_database_is_unavailable_no_message_is_acknowledged_and_other_calls_work() {
    let (redis, mut postgres) = tokio::join!(Redis::start(), Postgres::start());
    let database = postgres.create_database().await;
    let hasty = on(&redis, &database).env("PARLOR_DATABASE__TIMEOUT", "2s");
    let node = ready(hasty).await;
    let (alice, bob) = (user("alice"), user("bob"));
    create_lunch_group(&node).await;
    let sent = send(&node, &alice, "Noon?").await.created();
    let list = async || request(&bob, "GET", "/lunch/messages").at(&node).await;
    assert_eq!(list().await.ok()["messages"], json!([sent]));

    // The test server runs without fsync, so the data must be on disk before the kill.
    postgres.query("CHECKPOINT").await;
    postgres.kill9();
    // Backends of the killed server exit a moment later.
    eventually("messages are rejected", async || {
        send(&node, &alice, "?").await.status == 503
    })
    .await;
    for _ in 0..3 {
        let refused = send(&node, &alice, "?").await;
        refused.refused(503, "database_unavailable");
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    let unread = call("GET", "/v1/unread").by(&bob).at(&node).await;
    unread.refused(503, "database_unavailable");
    let begin = call("POST", "/v1/sessions")
        .by(&user("carol"))
        .at(&node)
        .await;
    begin.refused(503, "database_unavailable");
    // Reads that the store can answer succeed.
    let known = list().await.ok();
    assert_eq!(known["messages"][0], sent);
    // Operations that only need the store succeed.
    call("GET", "/v1/presence/count")
        .by(&bob)
        .at(&node)
        .await
        .ok();
    let presence = call("PUT", "/v1/users/bob/presence").by(&bob);
    presence
        .json(json!({ "status": "online" }))
        .at(&node)
        .await
        .ok();

    postgres.restart().await;
    let next = eventually("messages are accepted again", async || {
        let answer = send(&node, &alice, "One?").await;
        (answer.status == 201).then(|| answer.json())
    })
    .await;
    let page = list().await.ok();
    let contents: Vec<&Value> = page["messages"].as_array().unwrap().iter().collect();
    assert_eq!(contents.first().unwrap()["content"], "Noon?");
    assert_eq!(**contents.last().unwrap(), next);
}
