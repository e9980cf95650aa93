//! Tests of the rate limit of requests.

use parlor_testkit::{Redis, ServerProcess, ServerProcessOptions, eventually};
use redis::AsyncCommands;
use tonic::Code;

use super::client::{TestRequest, TestResponse, call, node, ready};
use crate::grpc::client::{Client, assert_refused};
use crate::tokens::{admin, service, user};

const COUNT: &str = "/v1/presence/count";
const LIMIT: u32 = 5;

/// A node with a low rate limit whose window is longer than a test.
fn low_limit_node() -> ServerProcessOptions {
    node()
        .env("PARLOR_LIMITS__HTTP", LIMIT.to_string())
        .env("PARLOR_LIMITS__HTTP_WINDOW", "1d")
}

fn request(token: &str) -> TestRequest {
    call("GET", COUNT).by(token)
}

fn header_number(answer: &TestResponse, name: &str) -> u32 {
    let value = answer.header(name).and_then(|value| value.parse().ok());
    value.unwrap_or_else(|| panic!("{name}: {answer:?}"))
}

fn remaining(answer: &TestResponse) -> u32 {
    assert_eq!(header_number(answer, "ratelimit-limit"), LIMIT);
    assert!(header_number(answer, "ratelimit-reset") > 0, "{answer:?}");
    header_number(answer, "ratelimit-remaining")
}

fn refused(answer: &TestResponse) {
    answer.refused(429, "rate_limited");
    assert_eq!(remaining(answer), 0);
    let wait = u64::from(header_number(answer, "retry-after"));
    let ms = answer.json()["retryAfterMs"].as_u64().unwrap();
    assert_eq!(wait, ms.div_ceil(1_000), "{answer:?}");
}

/// Sends requests until the limit is used up, and checks the remaining number of each response.
async fn use_up_limit(call: impl Fn() -> TestRequest, node: &ServerProcess) {
    let first = call().at(node).await;
    for rest in (0..remaining(&first)).rev() {
        assert_eq!(remaining(&call().at(node).await), rest);
    }
    refused(&call().at(node).await);
}

#[tokio::test]
async fn http_and_grpc_share_one_limit_per_user() {
    let node = ready(low_limit_node()).await;
    let alice = user("alice");
    use_up_limit(|| request(&alice), &node).await;
    let client = Client::new(Some(alice), node.grpc_address()).await;
    let status = client.get("alice").await.unwrap_err();
    assert_refused(&status, Code::ResourceExhausted, "rate_limited");

    let bob = Client::new(Some(user("bob")), node.grpc_address()).await;
    bob.get("bob").await.unwrap();
    let answer = request(&user("bob")).at(&node).await;
    assert_eq!(remaining(&answer), LIMIT - 2);
    remaining(&request(&admin("root")).at(&node).await);
    for _ in 0..=LIMIT {
        let answer = request(&service()).header("Parlor-User", "alice");
        let answer = answer.at(&node).await;
        answer.ok();
        assert_eq!(answer.header("ratelimit-limit"), None);
    }
}

#[tokio::test]
async fn requests_without_a_valid_token_are_limited_by_address() {
    let node = ready(low_limit_node()).await;
    let call = || call("GET", COUNT).header("X-Forwarded-For", "203.0.113.9");
    let first = request("wrong").at(&node).await;
    first.refused(401, "token_invalid");
    assert_eq!(remaining(&first), LIMIT - 1);
    use_up_limit(call, &node).await;
    // An authenticated user has a separate limit.
    request(&user("alice")).at(&node).await.ok();
    for path in ["/healthz", "/readyz", "/openapi.json", "/docs/"] {
        let answer = super::client::call("GET", path).at(&node).await;
        assert_eq!(
            (answer.status, answer.header("ratelimit-limit")),
            (200, None)
        );
    }
}

#[tokio::test]
async fn behind_a_trusted_proxy_limits_use_the_forwarded_address() {
    let node =
        ready(low_limit_node().env("PARLOR_SERVER__TRUSTED_PROXIES", "127.0.0.0/8,10.0.0.1")).await;
    let from = |addresses: &'static str| call("GET", COUNT).header("X-Forwarded-For", addresses);
    use_up_limit(|| from("198.51.100.1, 203.0.113.9, 10.0.0.1"), &node).await;
    refused(&from("203.0.113.9").at(&node).await);
    let other = from("203.0.113.9, 203.0.113.10").at(&node).await;
    assert_eq!(remaining(&other), LIMIT - 1);
    let network = from("2001:db8::1").at(&node).await;
    let neighbour = from("[2001:db8::2]:443").at(&node).await;
    assert_eq!(
        (remaining(&network), remaining(&neighbour)),
        (LIMIT - 1, LIMIT - 2)
    );
}

#[tokio::test]
async fn two_nodes_share_a_rate_limit_and_count_locally_while_the_store_is_unavailable() {
    let mut redis = Redis::start().await;
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}/parlor.db", folder.path().display());
    let start = || {
        low_limit_node()
            .env("PARLOR_STORE__URL", redis.url())
            .env("PARLOR_DATABASE__URL", &database)
    };
    let (one, other) = tokio::join!(ready(start()), ready(start()));
    let alice = user("alice");
    let first = remaining(&request(&alice).at(&one).await);
    assert_eq!(remaining(&request(&alice).at(&other).await), first - 1);
    let mut connection = redis.connection().await;
    assert!(
        connection
            .exists::<_, bool>("gcra:http:user:alice")
            .await
            .unwrap()
    );

    redis.kill9();
    use_up_limit(|| request(&alice), &one).await;
    use_up_limit(|| call("GET", COUNT), &one).await;
    redis.restart().await;
    eventually("the store counts again", async || {
        remaining(&request(&alice).at(&one).await) == first - 2
    })
    .await;
}
