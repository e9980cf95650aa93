//! Tests of the permissions of callers.

use axum::http::Method;
use parlor_chat::api::operation::AuthRequirement;
use parlor_server::http::routes::ROUTES;
use parlor_testkit::ServerProcess;
use serde_json::json;

use super::client::{TestResponse, call, embedded, sign_in};
use crate::tokens::{self, admin, now, service, signed, token_with_claims, user, visitor_token};

#[tokio::test]
async fn every_protected_route_rejects_missing_invalid_and_expired_tokens() {
    let node = embedded().await;
    let late = token_with_claims("alice", &json!({ "exp": now() - 60 }));
    let early = token_with_claims("alice", &json!({ "nbf": now() + 3_600 }));
    let forged = signed(
        &json!({ "sub": "alice", "iat": now(), "exp": now() + 60 }),
        "another secret",
    );
    for route in ROUTES.iter().filter(|it| it.auth != AuthRequirement::None) {
        let path = route.path.replace(['{', '}'], "");
        for (authorization, code) in [
            (None, "token_missing"),
            (Some("Basic YTpi".to_owned()), "token_missing"),
            (Some("Bearer ".to_owned()), "token_missing"),
            (Some("Bearer x.y.z".to_owned()), "token_invalid"),
            (Some("Bearer t\u{f6}ken".to_owned()), "token_invalid"),
            (Some(format!("Bearer {forged}")), "token_invalid"),
            (Some(format!("Bearer {late}")), "token_expired"),
            (Some(format!("Bearer {early}")), "token_not_yet_valid"),
        ] {
            // The caller is rejected before the malformed body is read.
            let mut request = call(route.method.as_str(), &path).body("{");
            if let Some(value) = &authorization {
                request = request.header("Authorization", value);
            }
            let answer = request.at(&node).await;
            answer.refused(401, code);
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            assert_eq!(answer.header("cache-control"), Some("no-store"));
            let nosniff = answer.header("x-content-type-options");
            assert_eq!(nosniff, Some("nosniff"));
        }
    }
}

#[tokio::test]
async fn presence_routes_enforce_the_permission_table() {
    const PRESENCE: &str = "/v1/users/alice/presence";
    const BEAT: &str = "/v1/users/alice/presence/heartbeat";
    const DEVICES: &str = "/v1/users/alice/presence/devices";
    const DEVICE: &str = "/v1/users/alice/presence/devices/phone";
    let node = embedded().await;
    let callers = [user("alice"), user("bob"), admin("root"), service()];
    for (method, path, may) in [
        (Method::GET, PRESENCE, [true, true, true, true]),
        (Method::PUT, PRESENCE, [true, false, false, true]),
        (Method::POST, BEAT, [true, false, false, true]),
        (Method::GET, DEVICES, [true, false, true, true]),
        (Method::DELETE, DEVICE, [true, false, true, true]),
    ] {
        for (token, may) in callers.iter().zip(may) {
            let request = call(method.as_str(), path).by(token);
            let answer = request
                .json(json!({ "status": "online", "seq": 1 }))
                .at(&node)
                .await;
            if may {
                answer.ok();
            } else {
                let detail = answer.refused(403, "forbidden");
                assert!(detail.contains("alice"), "{detail}");
            }
        }
    }
}

#[tokio::test]
async fn only_a_service_acts_for_another_user() {
    let node = embedded().await;
    beat(&node, &service(), "bob")
        .await
        .refused(403, "forbidden");
    beat(&node, &service(), "alice").await.ok();
    beat(&node, &user("alice"), "alice").await.ok();
    beat(&node, &user("alice"), "bob")
        .await
        .refused(403, "forbidden");
    beat(&node, &admin("root"), "alice")
        .await
        .refused(403, "forbidden");
    beat(&node, &service(), "a b")
        .await
        .refused(400, "invalid_id");
    beat(&node, &service(), "").await.refused(400, "invalid_id");
    beat(&node, &service(), "\u{f6}")
        .await
        .refused(400, "invalid_id");

    let typing = call("PUT", "/v1/conversations/c1/typing").by(&service());
    let detail = typing.at(&node).await.refused(400, "user_required");
    assert!(detail.contains("Parlor-User"), "{detail}");
}

#[tokio::test]
async fn a_visitor_can_read_and_cannot_write() {
    let node = embedded().await;
    let token = visitor_token("guest");
    sign_in(&node, &token).await;
    let read = call("GET", "/v1/users/alice/presence").by(&token);
    read.at(&node).await.ok();
    let typing = call("PUT", "/v1/conversations/c1/typing").by(&token);
    typing.at(&node).await.refused(403, "read_only_session");
}

#[tokio::test]
async fn every_route_rejects_invalid_ids() {
    let node = embedded().await;
    let long = "x".repeat(129);
    for route in ROUTES.iter().filter(|route| route.path.contains('{')) {
        for wrong in ["a%20b", "a:b", "status", &long] {
            let path = route
                .path
                .replace("{device}", "phone")
                .replace("{seq}", "1");
            let path = path.replace("{user}", wrong).replace("{id}", wrong);
            if wrong == "status" && route.path.contains("{id}") {
                continue;
            }
            let request = call(route.method.as_str(), &path).by(&tokens::service());
            let request = request.header("Parlor-User", "alice");
            let admin = route.path.starts_with("/v1/admin/");
            let status = if admin { "blocked" } else { "online" };
            let answer = request.json(json!({ "status": status, "seq": 1 }));
            let answer = answer.at(&node).await;
            answer.refused(400, "invalid_id");
        }
    }
    let device = call("DELETE", "/v1/users/alice/presence/devices/a%20b");
    let answer = device.by(&user("alice")).at(&node).await;
    answer.refused(400, "invalid_id");
}

async fn beat(node: &ServerProcess, token: &str, acting_for: &str) -> TestResponse {
    let beat = call("POST", "/v1/users/alice/presence/heartbeat").by(token);
    beat.header("Parlor-User", acting_for).at(node).await
}
