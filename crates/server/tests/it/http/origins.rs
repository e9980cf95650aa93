//! Tests of CORS.

use super::client::{TestResponse, call, embedded, node, ready};
use crate::tokens::user;

const COUNT: &str = "/v1/presence/count";

#[tokio::test]
async fn pages_of_other_origins_are_rejected_unless_they_are_listed() {
    let listed = node().env(
        "PARLOR_SERVER__ALLOWED_ORIGINS",
        "https://chat.example.com,http://localhost:3000",
    );
    let node = ready(listed).await;
    let token = user("alice");
    let own = node.http_url();
    for origin in [
        own.as_str(),
        "https://chat.example.com",
        "http://localhost:3000",
    ] {
        let request = call("GET", COUNT).by(&token).header("Origin", origin);
        let answer = request.at(&node).await;
        answer.ok();
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
        assert_eq!(answer.header("vary"), Some("Origin"));
        assert_eq!(answer.header("access-control-allow-credentials"), None);
    }
    for origin in ["https://evil.example", "http://chat.example.com", "null"] {
        // The origin is checked before the token, so a page of another origin learns nothing about a token.
        for token in [token.as_str(), "wrong"] {
            let request = call("GET", COUNT).by(token).header("Origin", origin);
            let answer = request.at(&node).await;
            let detail = answer.refused(403, "origin_not_allowed");
            assert!(detail.contains("server.allowed_origins"), "{detail}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
        let simple = call("POST", "/v1/presence/query").header("Origin", origin);
        let simple = simple.header("Content-Type", "text/plain").body("{");
        simple.at(&node).await.refused(403, "origin_not_allowed");
    }
}

#[tokio::test]
async fn a_preflight_response_lists_allowed_methods_and_headers() {
    let listed = node().env("PARLOR_SERVER__ALLOWED_ORIGINS", "https://chat.example.com");
    let node = ready(listed).await;
    let preflight = async |origin: &str| {
        call("OPTIONS", "/v1/users/alice/presence")
            .header("Origin", origin)
            .header("Access-Control-Request-Method", "PUT")
            .header(
                "Access-Control-Request-Headers",
                "authorization,parlor-user",
            )
            .at(&node)
            .await
    };
    let answer = preflight("https://chat.example.com").await;
    assert_eq!((answer.status, answer.text.as_str()), (204, ""));
    let says = |name: &str| list(&answer, name);
    assert_eq!(
        says("access-control-allow-origin"),
        ["https://chat.example.com"]
    );
    assert!(says("access-control-allow-methods").contains(&"put".to_owned()));
    assert_eq!(
        says("access-control-allow-headers"),
        [
            "authorization",
            "content-type",
            "idempotency-key",
            "parlor-user"
        ]
    );
    assert!(answer.header("access-control-max-age").is_some());
    assert_eq!(answer.header("vary"), Some("Origin"));
    preflight("https://evil.example")
        .await
        .refused(403, "origin_not_allowed");
}

#[tokio::test]
async fn a_star_allows_pages_of_every_origin() {
    let node = ready(node().env("PARLOR_SERVER__ALLOWED_ORIGINS", "*")).await;
    for origin in ["https://any.example", "null"] {
        let request = call("GET", COUNT)
            .by(&user("alice"))
            .header("Origin", origin);
        let answer = request.at(&node).await;
        answer.ok();
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
    }
}

#[tokio::test]
async fn health_endpoints_ignore_the_origin() {
    let node = embedded().await;
    for path in ["/healthz", "/readyz"] {
        let request = call("GET", path).header("Origin", "https://evil.example");
        let answer = request.at(&node).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}

fn list(answer: &TestResponse, name: &str) -> Vec<String> {
    let value = answer.header(name).unwrap_or_default().to_lowercase();
    value.split(", ").map(str::to_owned).collect()
}
