//! Tests of request bodies, malformed requests and unknown paths.

use parlor_testkit::ServerProcess;
use serde_json::json;

use super::client::{HttpConnection, TestResponse, call, embedded};
use crate::tokens::user;

const ALICE: &str = "/v1/users/alice/presence";
const MAX_BODY_BYTES: usize = 256 * 1024;

async fn put(node: &ServerProcess, body: impl Into<Vec<u8>>) -> TestResponse {
    let put = call("PUT", ALICE).by(&user("alice"));
    put.body(body).at(node).await
}

#[tokio::test]
async fn invalid_bodies_are_rejected_with_the_position_of_the_error() {
    let node = embedded().await;
    let cases: &[(&[u8], &str)] = &[
        (b"", "missing field `status`"),
        (b"{}", "missing field `status`"),
        (br#"{"status":"here"}"#, "`status`: unknown variant `here`"),
        (br#"{"status":7}"#, "`status`: "),
        (
            br#"{"status":"away","deviceId":["x"]}"#,
            "`deviceId`: invalid type",
        ),
        (br#"{"status":"#, "line 1 column 10"),
        (b"{\n  'status': 1}", "line 2 column 3"),
        (b"{\"status\":\"\xff\"}", "line 1 column"),
        (br#"{"status":"away"} x"#, "line 1 column 19"),
        (b"status=away", "not JSON"),
        (br#"["away"]"#, "not an array"),
        (br#""away""#, "not a string"),
        (b"null", "not null"),
        (b"7", "not a number"),
        (b"true", "not true or false"),
    ];
    for (body, part) in cases {
        let shown = String::from_utf8_lossy(body);
        let detail = put(&node, *body).await.refused(400, "invalid_request");
        assert!(detail.contains(part), "{shown}: {detail}");
    }
    let deep = "[".repeat(100_000);
    put(&node, deep).await.refused(400, "invalid_request");

    let query = call("POST", "/v1/presence/query").by(&user("alice"));
    let answer = query.json(json!({ "userIds": ["a", 5] })).at(&node).await;
    let detail = answer.refused(400, "invalid_request");
    assert!(detail.starts_with("`userIds[1]`: "), "{detail}");
}

#[tokio::test]
async fn the_content_type_and_unknown_fields_of_a_body_are_ignored() {
    let node = embedded().await;
    for kind in [
        "application/json",
        "application/json; charset=utf-8",
        "application/x-www-form-urlencoded",
        "text/plain",
    ] {
        let put = call("PUT", ALICE).by(&user("alice"));
        let put = put.header("Content-Type", kind);
        let body = json!({ "status": "online", "mood": { "is": "good" } });
        assert_eq!(put.json(body).at(&node).await.ok()["status"], "online");
    }
}

#[tokio::test]
async fn a_body_is_taken_up_to_256_kib() {
    let node = embedded().await;
    let padded = |length: usize| {
        let mut body = br#"{"status":"online"}"#.to_vec();
        body.resize(length, b' ');
        body
    };
    put(&node, padded(MAX_BODY_BYTES)).await.ok();
    for length in [MAX_BODY_BYTES + 1, 2 * MAX_BODY_BYTES] {
        put(&node, padded(length))
            .await
            .refused(413, "body_too_large");
    }
    for length in [MAX_BODY_BYTES, MAX_BODY_BYTES + 1] {
        let mut line = HttpConnection::connect_to(&node).await;
        line.write(response_head("Transfer-Encoding: chunked").as_bytes())
            .await;
        for chunk in padded(length).chunks(40_000) {
            line.write(format!("{:x}\r\n", chunk.len()).as_bytes())
                .await;
            line.write(chunk).await;
            line.write(b"\r\n").await;
        }
        line.write(b"0\r\n\r\n").await;
        let answer = line.answer().await;
        if length == MAX_BODY_BYTES {
            answer.ok();
        } else {
            answer.refused(413, "body_too_large");
        }
    }
}

#[tokio::test]
async fn a_body_announced_as_oversized_is_rejected_at_once() {
    let node = embedded().await;
    let mut line = HttpConnection::connect_to(&node).await;
    let announced = "Expect: 100-continue\r\nContent-Length: 1000000000";
    line.write(response_head(announced).as_bytes()).await;
    let answer = line.answer().await;
    answer.refused(413, "body_too_large");
    line.closed().await;
}

#[tokio::test]
async fn a_rejected_request_keeps_its_http_connection_open() {
    let node = embedded().await;
    let mut line = HttpConnection::connect_to(&node).await;
    let token = user("alice");
    for _ in 0..2 {
        let put = || call("PUT", ALICE).by(&token);
        line.ask(put().body("{"))
            .await
            .refused(400, "invalid_request");
        line.ask(put().body("x".repeat(MAX_BODY_BYTES + 9)))
            .await
            .refused(413, "body_too_large");
        line.ask(call("PUT", ALICE).body("{}"))
            .await
            .refused(401, "token_missing");
        line.ask(call("GET", "/v1/no/such"))
            .await
            .refused(404, "not_found");
        line.ask(put().json(json!({ "status": "away" }))).await.ok();
    }
    // Two pipelined requests.
    line.write(response_head("Content-Length: 0").repeat(2).as_bytes())
        .await;
    for _ in 0..2 {
        line.answer().await.refused(400, "invalid_request");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_answered_with_problem_json() {
    let node = embedded().await;
    for path in [
        "/v1",
        "/v1/",
        "/v1/users",
        "/v1/users/alice/presence/",
        "/v2/users/alice/presence",
        "/docs/nothing.js",
        "/docs/../Cargo.toml",
    ] {
        call("GET", path).at(&node).await.refused(404, "not_found");
    }
    for (method, path, allowed) in [
        ("POST", ALICE, "GET,HEAD,PUT"),
        ("DELETE", "/v1/presence/query", "POST"),
        ("PUT", "/openapi.json", "GET,HEAD"),
        ("BREW", "/v1/presence/count", "GET,HEAD"),
    ] {
        let answer = call(method, path).at(&node).await;
        answer.refused(405, "method_not_allowed");
        assert_eq!(answer.header("allow"), Some(allowed), "{method} {path}");
    }
}

#[tokio::test]
async fn head_returns_the_content_length_and_options_the_methods() {
    let node = embedded().await;
    let count = "/v1/presence/count";
    let mut line = HttpConnection::connect_to(&node).await;
    let head = line.ask(call("HEAD", count).by(&user("alice"))).await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
    assert_eq!(head.header("content-length"), Some("11"), "{head:?}");
    let head = line.ask(call("HEAD", count)).await;
    assert_eq!((head.status, head.text.as_str()), (401, ""));
    let options = line.ask(call("OPTIONS", ALICE)).await;
    assert_eq!((options.status, options.text.as_str()), (204, ""));
    assert_eq!(options.header("allow"), Some("GET,HEAD,PUT"));
    line.ask(call("GET", count).by(&user("alice"))).await.ok();
}

#[tokio::test]
async fn oversized_or_malformed_headers_close_only_their_own_connection() {
    let node = embedded().await;
    let mut other = HttpConnection::connect_to(&node).await;
    for (request, status) in [
        (response_head(&format!("X: {}", "x".repeat(300_000))), 431),
        (response_head(&"X: y\r\n".repeat(200)), 431),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(70_000)), 414),
        ("GET / HTTP/1.1\r\nbroken\r\n\r\n".into(), 400),
    ] {
        let mut line = HttpConnection::connect_to(&node).await;
        line.write(request.as_bytes()).await;
        let answer = line.answer().await;
        assert_eq!(answer.status, status, "{answer:?}");
        line.closed().await;
    }
    let count = call("GET", "/v1/presence/count").by(&user("alice"));
    other.ask(count).await.ok();
}

/// Head of a request that sets a status, with an additional header line.
fn response_head(line: &str) -> String {
    let token = user("alice");
    format!("PUT {ALICE} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{line}\r\n\r\n")
}
