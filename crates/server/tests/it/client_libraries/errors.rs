//! Tests of handshakes and events with errors, by real clients.

use serde_json::json;

use super::deployment::{Ground, World};
use super::driver::{Driver, Language};
use crate::tokens::{SECRET, now, signed, user, visitor_token};

async fn refusals(language: Language) {
    let world = World::start(Ground::Embedded).await;
    let driver = Driver::start(language);
    let late = json!({ "sub": "alice", "iat": now() - 900, "exp": now() - 600 });
    for (auth, code) in [
        (json!({}), "token_missing"),
        (json!({ "token": "no token" }), "token_invalid"),
        (json!({ "token": 7 }), "invalid_request"),
        (json!({ "token": signed(&late, SECRET) }), "token_expired"),
        (
            json!({ "token": user("alice"), "deviceId": "a b" }),
            "invalid_id",
        ),
        (
            json!({ "token": user("alice"), "resume": { "lunch": "x" } }),
            "invalid_request",
        ),
    ] {
        let refused = driver.open("x", &world.url(0), auth.clone()).await;
        let refused = refused.expect_err(&auth.to_string());
        assert_eq!(refused["code"], code, "{auth}");
    }
    let auth = json!({ "token": user("alice") });
    driver.open("alice", &world.url(0), auth).await.unwrap();
    for (event, body, code) in [
        ("message:sent", json!({}), "not_found"),
        ("message:send", json!({}), "invalid_request"),
        ("message:send", json!("text"), "invalid_request"),
        ("message:send", json!(null), "invalid_request"),
        (
            "message:send",
            json!({ "conversationId": "a b", "content": "x" }),
            "invalid_id",
        ),
        (
            "message:send",
            json!({ "conversationId": "none", "content": "x" }),
            "not_a_member",
        ),
        (
            "conversation:join",
            json!({ "conversationId": "none" }),
            "not_a_member",
        ),
        (
            "typing:start",
            json!({ "conversationId": "none" }),
            "not_a_member",
        ),
        (
            "presence:set",
            json!({ "status": "asleep" }),
            "invalid_request",
        ),
        (
            "session:refresh",
            json!({ "token": "no token" }),
            "token_invalid",
        ),
    ] {
        let refused = driver.refused("alice", event, body.clone()).await;
        assert_eq!(refused, code, "{event} {body}");
    }
    let many: Vec<String> = (0..1_001).map(|number| format!("u{number}")).collect();
    let watch = json!({ "userIds": many });
    let refused = driver.refused("alice", "presence:watch", watch).await;
    assert_eq!(refused, "too_many");
    // The rejected events did not close the connection.
    driver.ok("alice", "heartbeat", json!({})).await;

    let auth = json!({ "token": visitor_token("v1") });
    driver.open("visitor", &world.url(0), auth).await.unwrap();
    let send = json!({ "conversationId": "lunch", "content": "x" });
    let refused = driver.refused("visitor", "message:send", send).await;
    assert_eq!(refused, "read_only_session");
}

#[tokio::test]
async fn the_node_client_gets_every_error() {
    refusals(Language::Node).await;
}

#[tokio::test]
async fn the_python_client_gets_every_error() {
    refusals(Language::Python).await;
}
