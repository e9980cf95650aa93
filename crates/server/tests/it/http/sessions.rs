//! Tests of sessions.

use axum::http::Method;
use parlor_chat::api::operation::AuthRequirement;
use parlor_server::http::routes::ROUTES;
use parlor_testkit::eventually;
use serde_json::json;

use super::client::{call, embedded, node, ready, sign_in};
use crate::tokens::{admin, now, service, token_with_claims, user};

const COUNT: &str = "/v1/presence/count";

#[tokio::test]
async fn every_route_asks_a_user_without_a_session_to_begin_one() {
    let node = embedded().await;
    let carol = user("carol");
    for route in ROUTES
        .iter()
        .filter(|it| it.auth == AuthRequirement::Session)
    {
        let path = route.path.replace("{seq}", "1").replace(['{', '}'], "");
        // The session is checked before the malformed body is read.
        let request = call(route.method.as_str(), &path).by(&carol).body("{");
        let answer = request.at(&node).await;
        let detail = answer.refused(401, "session_expired");
        assert!(detail.contains("POST /v1/sessions"), "{detail}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    let begun = call("POST", "/v1/sessions").by(&carol);
    let begun = begun.json(json!({ "deviceId": "laptop" })).at(&node).await;
    let session = begun.created();
    assert_eq!(
        (&session["userId"], &session["deviceId"], &session["status"]),
        (&json!("carol"), &json!("laptop"), &json!("login"))
    );
    assert_eq!(session["ipAddress"], "127.0.0.1");
    call("GET", COUNT).by(&carol).at(&node).await.ok();
    let me = call("GET", "/v1/sessions/me").by(&carol).at(&node).await;
    assert_eq!(me.ok()["loginTime"], session["loginTime"]);
}

#[tokio::test]
async fn tokens_issued_before_a_logout_are_rejected() {
    let node = embedded().await;
    let alice = user("alice");
    call("GET", COUNT).by(&alice).at(&node).await.ok();
    let out = call("DELETE", "/v1/sessions/me").by(&alice).at(&node).await;
    assert_eq!(out.ok(), json!({ "userId": "alice" }));
    let again = call("GET", COUNT).by(&alice).at(&node).await;
    again.refused(401, "session_expired");
    let begin = call("POST", "/v1/sessions").by(&alice).at(&node).await;
    begin.refused(401, "session_expired");
    // A token issued in the second of the logout counts as issued before it.
    let newer = token_with_claims("alice", &json!({ "iat": now() + 2 }));
    sign_in(&node, &newer).await;
    call("GET", COUNT).by(&newer).at(&node).await.ok();
}

#[tokio::test]
async fn an_admin_blocks_and_unblocks_a_user() {
    let node = embedded().await;
    let change = async |by: &str, status: &str| {
        let patch = call("PATCH", "/v1/admin/sessions/bob").by(by);
        patch.json(json!({ "status": status })).at(&node).await
    };
    change(&user("alice"), "blocked")
        .await
        .refused(403, "forbidden");
    let blocked = change(&admin("root"), "blocked").await.ok();
    assert_eq!(blocked["status"], "blocked");
    for (method, path) in [("GET", COUNT), ("POST", "/v1/sessions")] {
        let refused = call(method, path).by(&user("bob")).at(&node).await;
        refused.refused(403, "session_blocked");
    }
    let seen = call("GET", "/v1/admin/sessions/bob").by(&service());
    assert_eq!(seen.at(&node).await.ok()["status"], "blocked");
    change(&admin("root"), "login").await.ok();
    eventually("bob is accepted", async || {
        let request = call("GET", COUNT).by(&user("bob")).at(&node).await;
        request.status == 200
    })
    .await;
    let end = call(Method::DELETE.as_str(), "/v1/admin/sessions/bob").by(&admin("root"));
    end.at(&node).await.ok();
    let refused = call("GET", COUNT).by(&user("bob")).at(&node).await;
    refused.refused(401, "session_expired");
}

#[tokio::test]
async fn a_session_stores_the_forwarded_client_address() {
    let node = ready(node().env("PARLOR_SERVER__TRUSTED_PROXIES", "127.0.0.1")).await;
    let begin = call("POST", "/v1/sessions").by(&user("carol"));
    let begin = begin.header("X-Forwarded-For", "198.51.100.1, 203.0.113.9");
    let session = begin.at(&node).await.created();
    assert_eq!(session["ipAddress"], "203.0.113.9");
}

#[tokio::test]
async fn only_admins_and_services_administer_sessions() {
    let node = embedded().await;
    let request = |by: &str, method: Method, user: &str| {
        let path = format!("/v1/admin/sessions/{user}");
        call(method.as_str(), &path).by(by)
    };
    let blocked = json!({ "status": "blocked" });
    for method in [Method::GET, Method::PATCH, Method::DELETE] {
        let own = request(&user("alice"), method, "alice").json(blocked.clone());
        own.at(&node).await.refused(403, "forbidden");
    }
    for by in [admin("root"), service()] {
        let seen = request(&by, Method::GET, "alice").at(&node).await.ok();
        assert_eq!(
            (&seen["userId"], &seen["status"]),
            (&json!("alice"), &json!("login"))
        );
        let nobody = request(&by, Method::GET, "nobody").at(&node).await;
        nobody.refused(404, "not_found");
        let nobody = request(&by, Method::PATCH, "nobody").json(json!({ "status": "login" }));
        nobody.at(&node).await.refused(404, "not_found");
        for wrong in [
            json!({}),
            json!({ "status": "anonymous" }),
            json!({ "status": "banned" }),
            json!({ "status": "blocked", "reason": "x".repeat(257) }),
        ] {
            let change = request(&by, Method::PATCH, "alice").json(wrong);
            change.at(&node).await.refused(400, "invalid_request");
        }
    }
    // A user who never had a session can be blocked, too.
    let block = request(&service(), Method::PATCH, "carol").json(blocked);
    assert_eq!(block.at(&node).await.ok()["status"], "blocked");
    let begin = call("POST", "/v1/sessions").by(&user("carol"));
    begin.at(&node).await.refused(403, "session_blocked");
    for method in ["GET", "DELETE"] {
        let mine = call(method, "/v1/sessions/me").by(&service());
        mine.at(&node).await.refused(400, "user_required");
    }
    let wrong = call("POST", "/v1/sessions").by(&user("alice"));
    let wrong = wrong.json(json!({ "deviceId": "a b" }));
    wrong.at(&node).await.refused(400, "invalid_id");
}

#[tokio::test]
async fn a_visitor_session_is_read_only_and_must_be_enabled() {
    let closed = embedded().await;
    let come_in = call("POST", "/v1/sessions/anonymous");
    let refused = come_in.at(&closed).await.refused(403, "forbidden");
    assert!(refused.contains("sessions.anonymous"), "{refused}");
    let node = ready(node().env("PARLOR_SESSIONS__ANONYMOUS", "true")).await;
    let visit = call("POST", "/v1/sessions/anonymous").at(&node).await;
    let visit = visit.created();
    assert_eq!(visit["session"]["status"], "anonymous");
    let visitor = visit["session"]["userId"].as_str().unwrap();
    let token = visit["token"].as_str().unwrap();
    let me = call("GET", "/v1/sessions/me").by(token).at(&node).await;
    assert_eq!(me.ok()["userId"], visitor);
    let create = call("POST", "/v1/conversations").by(token);
    let create = create.json(json!({ "kind": "group", "members": [] }));
    create.at(&node).await.refused(403, "read_only_session");
}
