//! Tests of the typing routes.

use parlor_testkit::{Redis, eventually};
use redis::AsyncCommands;
use serde_json::json;

use super::client::{call, embedded, node, ready};
use crate::tokens::{service, user};

const C1: &str = "/v1/conversations/c1/typing";

#[tokio::test]
async fn typing_is_set_listed_and_ended() {
    let redis = Redis::start().await;
    let node = node().env("PARLOR_STORE__URL", redis.url());
    let node = ready(node.env("PARLOR_TTL__TYPING", "6s")).await;
    let mut keys = redis.connection().await;
    let set = async |body: serde_json::Value| {
        let put = call("PUT", C1)
            .by(&service())
            .header("Parlor-User", "alice");
        put.json(body).at(&node).await.ok()
    };
    let listed = async || call("GET", C1).by(&service()).at(&node).await.ok();
    assert_eq!(listed().await, json!({ "typing": [] }));

    let started = set(json!({ "username": "Alice" })).await;
    assert_eq!(started, json!({ "typing": true }));
    let typer = json!({ "userId": "alice", "username": "Alice" });
    assert_eq!(listed().await, json!({ "typing": [typer] }));
    let left: i64 = keys.pttl("typing:c1:alice").await.unwrap();
    assert!((1..=6_000).contains(&left), "{left}");

    let stopped = set(json!({ "typing": false })).await;
    assert_eq!(stopped, json!({ "typing": false }));
    assert_eq!(listed().await, json!({ "typing": [] }));
    assert!(!keys.exists::<_, bool>("typing:c1:alice").await.unwrap());

    let put = call("PUT", &format!("{C1}?typing=true")).by(&service());
    put.header("Parlor-User", "bob").at(&node).await.ok();
    eventually("typing expires", async || {
        listed().await == json!({ "typing": [] })
    })
    .await;
}

#[tokio::test]
async fn only_members_read_and_set_typing() {
    let node = embedded().await;
    for method in ["GET", "PUT"] {
        let request = call(method, C1).by(&user("alice"));
        let detail = request.at(&node).await.refused(403, "not_a_member");
        assert!(detail.contains("c1"), "{detail}");
    }
    let wrong = call("PUT", &format!("{C1}?typing=perhaps")).by(&service());
    let wrong = wrong.header("Parlor-User", "alice").at(&node).await;
    let detail = wrong.refused(400, "invalid_request");
    assert!(
        detail.contains("`typing`") && detail.contains("true or false"),
        "{detail}"
    );
}
