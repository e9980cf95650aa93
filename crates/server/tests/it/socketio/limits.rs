//! Tests of invalid events, limits and rate limits of sockets.

use futures_util::future::join_all;
use parlor_testkit::{SocketIoClientError, SocketIoTestClient};
use serde_json::json;

use super::{address, connect, emit_error_code, emit_ok, join};
use crate::http::client::{call, embedded, node, ready};
use crate::http::conversations::{create_lunch_group, request};
use crate::tokens::user;

#[tokio::test]
async fn invalid_events_are_acknowledged_with_an_error_code() {
    let node = embedded().await;
    create_lunch_group(&node).await;
    let mut alice = connect(&node, "alice").await;
    for (event, body, expected) in [
        ("nonsense", json!({}), "not_found"),
        ("message:send", json!({}), "invalid_request"),
        ("message:send", json!([1]), "invalid_request"),
        ("message:send", json!("text"), "invalid_request"),
        (
            "message:send",
            json!({ "conversationId": 7 }),
            "invalid_request",
        ),
        (
            "message:send",
            json!({ "conversationId": "a b", "content": "x" }),
            "invalid_id",
        ),
        (
            "message:send",
            json!({ "conversationId": "other", "content": "x" }),
            "not_a_member",
        ),
        (
            "conversation:join",
            json!({ "conversationId": "other" }),
            "not_a_member",
        ),
        (
            "conversation:join",
            json!({ "conversationId": "" }),
            "invalid_id",
        ),
        (
            "conversation:leave",
            json!({ "conversationId": "a b" }),
            "invalid_id",
        ),
        (
            "typing:start",
            json!({ "conversationId": "other" }),
            "not_a_member",
        ),
        (
            "history",
            json!({ "conversationId": "lunch", "limit": 0 }),
            "invalid_request",
        ),
        (
            "presence:set",
            json!({ "status": "asleep" }),
            "invalid_request",
        ),
        (
            "presence:watch",
            json!({ "userIds": ["a b"] }),
            "invalid_id",
        ),
        ("session:refresh", json!({ "token": "x" }), "token_invalid"),
        (
            "message:edit",
            json!({ "conversationId": "lunch", "seq": 9, "content": "x" }),
            "not_found",
        ),
        (
            "message:unread",
            json!({ "conversationId": "lunch" }),
            "invalid_request",
        ),
    ] {
        assert_eq!(
            emit_error_code(&mut alice, event, body.clone()).await,
            expected,
            "{event} {body}"
        );
    }
    // The error of an event without an ack id is not reported.
    alice.emit("nonsense", &json!({})).await.unwrap();
    emit_ok(&mut alice, "heartbeat", json!({})).await;
    assert_eq!(alice.take_queued_events(), []);
}

#[tokio::test]
async fn a_socket_cannot_join_more_conversations_than_the_limit() {
    let node = ready(node().env("PARLOR_GATEWAY__CONVERSATIONS", "2")).await;
    let mut alice = connect(&node, "alice").await;
    for id in ["one", "two", "three"] {
        let create = json!({ "id": id, "kind": "group", "members": [] });
        let create = request(&user("alice"), "POST", "").json(create);
        create.at(&node).await.created();
    }
    join(&mut alice, "one").await;
    join(&mut alice, "two").await;
    join(&mut alice, "two").await;
    let three = json!({ "conversationId": "three" });
    assert_eq!(
        emit_error_code(&mut alice, "conversation:join", three.clone()).await,
        "too_many"
    );
    emit_ok(
        &mut alice,
        "conversation:leave",
        json!({ "conversationId": "one" }),
    )
    .await;
    emit_ok(&mut alice, "conversation:join", three).await;
    let resume = json!({ "token": user("alice"), "resume": { "one": 1, "two": 1, "three": 1 } });
    assert_eq!(
        super::expect_connect_error(&node, &resume).await["code"],
        "too_many"
    );
}

#[tokio::test]
async fn socket_events_count_against_the_request_limit_of_the_user() {
    let options = node()
        .env("PARLOR_LIMITS__HTTP", "5")
        .env("PARLOR_LIMITS__HTTP_WINDOW", "1h");
    let node = ready(options).await;
    let mut alice = connect(&node, "alice").await;
    for _ in 0..5 {
        emit_ok(&mut alice, "presence:set", json!({ "status": "busy" })).await;
    }
    let refused = emit_error_code(&mut alice, "presence:set", json!({ "status": "busy" })).await;
    assert_eq!(refused, "rate_limited");
    let http = call("GET", "/v1/unread").by(&user("alice"));
    http.at(&node).await.refused(429, "rate_limited");
    // Heartbeats, typing and messages have their own limits.
    emit_ok(&mut alice, "heartbeat", json!({})).await;
}

#[tokio::test]
async fn a_rate_limited_handshake_gets_connect_error_with_retry_after() {
    let options = node()
        .env("PARLOR_GATEWAY__HANDSHAKES", "1")
        .env("PARLOR_GATEWAY__HANDSHAKE_BURST", "3");
    let node = ready(options).await;
    let auth = json!({ "token": user("alice") });
    let handshakes = (0..10).map(|_| SocketIoTestClient::connect(address(&node), &auth));
    let error = join_all(handshakes)
        .await
        .into_iter()
        .find_map(|result| match result {
            Err(SocketIoClientError::Rejected(body)) => Some(body),
            _ => None,
        });
    let error = error.expect("one of ten handshakes is rejected");
    assert_eq!(error["code"], "rate_limited", "{error}");
    assert!(error["data"]["retryAfterMs"].is_u64(), "{error}");
}
