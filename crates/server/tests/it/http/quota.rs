//! How often callers may call.

use parlor_testkit::{Node, NodeOptions, Redis, eventually};
use redis::AsyncCommands;
use tonic::Code;

use super::callers::{admin, service, user};
use super::client::{Answer, Call, call, node, ready};
use crate::grpc::client::{Client, assert_refused};

const COUNT: &str = "/v1/presence/count";
const LIMIT: u32 = 5;

/// A node that takes a few requests and gives none back while a test runs.
fn strict() -> NodeOptions {
    node()
        .env("PARLOR_LIMITS__HTTP", LIMIT.to_string())
        .env("PARLOR_LIMITS__HTTP_WINDOW", "1d")
}

fn asked(token: &str) -> Call {
    call("GET", COUNT).by(token)
}

fn number(answer: &Answer, name: &str) -> u32 {
    let value = answer.header(name).and_then(|value| value.parse().ok());
    value.unwrap_or_else(|| panic!("{name}: {answer:?}"))
}

fn left(answer: &Answer) -> u32 {
    assert_eq!(number(answer, "ratelimit-limit"), LIMIT);
    assert!(number(answer, "ratelimit-reset") > 0, "{answer:?}");
    number(answer, "ratelimit-remaining")
}

fn refused(answer: &Answer) {
    answer.refused(429, "rate_limited");
    assert_eq!(left(answer), 0);
    let wait = u64::from(number(answer, "retry-after"));
    let ms = answer.json()["retryAfterMs"].as_u64().unwrap();
    assert_eq!(wait, ms.div_ceil(1_000), "{answer:?}");
}

/// Calls until nothing is left, which must be after as many calls as was said.
async fn exhaust(call: impl Fn() -> Call, node: &Node) {
    let first = call().at(node).await;
    for rest in (0..left(&first)).rev() {
        assert_eq!(left(&call().at(node).await), rest);
    }
    refused(&call().at(node).await);
}

#[tokio::test]
async fn a_user_has_one_budget_for_all_doors() {
    let node = ready(strict()).await;
    let alice = user("alice");
    exhaust(|| asked(&alice), &node).await;
    let client = Client::new(Some(alice), node.grpc()).await;
    let status = client.get("alice").await.unwrap_err();
    assert_refused(&status, Code::ResourceExhausted, "rate_limited");

    let bob = Client::new(Some(user("bob")), node.grpc()).await;
    bob.get("bob").await.unwrap();
    let answer = asked(&user("bob")).at(&node).await;
    assert_eq!(left(&answer), LIMIT - 2);
    left(&asked(&admin("root")).at(&node).await);
    for _ in 0..=LIMIT {
        let answer = asked(&service()).header("Parlor-User", "alice");
        let answer = answer.at(&node).await;
        answer.ok();
        assert_eq!(answer.header("ratelimit-limit"), None);
    }
}

#[tokio::test]
async fn who_shows_no_valid_token_is_counted_by_address() {
    let node = ready(strict()).await;
    let call = || call("GET", COUNT).header("X-Forwarded-For", "203.0.113.9");
    let first = asked("wrong").at(&node).await;
    first.refused(401, "token_invalid");
    assert_eq!(left(&first), LIMIT - 1);
    exhaust(call, &node).await;
    // One who is known is not made to pay for the neighbours.
    asked(&user("alice")).at(&node).await.ok();
    for path in ["/healthz", "/readyz", "/openapi.json", "/docs/"] {
        let answer = super::client::call("GET", path).at(&node).await;
        assert_eq!(
            (answer.status, answer.header("ratelimit-limit")),
            (200, None)
        );
    }
}

#[tokio::test]
async fn a_trusted_proxy_says_whom_it_speaks_for() {
    let node = ready(strict().env("PARLOR_SERVER__TRUSTED_PROXIES", "127.0.0.0/8,10.0.0.1")).await;
    let from = |addresses: &'static str| call("GET", COUNT).header("X-Forwarded-For", addresses);
    exhaust(|| from("198.51.100.1, 203.0.113.9, 10.0.0.1"), &node).await;
    refused(&from("203.0.113.9").at(&node).await);
    let other = from("203.0.113.9, 203.0.113.10").at(&node).await;
    assert_eq!(left(&other), LIMIT - 1);
    let network = from("2001:db8::1").at(&node).await;
    let neighbour = from("[2001:db8::2]:443").at(&node).await;
    assert_eq!((left(&network), left(&neighbour)), (LIMIT - 1, LIMIT - 2));
}

#[tokio::test]
async fn two_nodes_share_a_budget_and_count_alone_while_the_store_is_away() {
    let mut redis = Redis::start().await;
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}/parlor.db", folder.path().display());
    let start = || {
        strict()
            .env("PARLOR_STORE__URL", redis.url())
            .env("PARLOR_DATABASE__URL", &database)
    };
    let (one, other) = tokio::join!(ready(start()), ready(start()));
    let alice = user("alice");
    let first = left(&asked(&alice).at(&one).await);
    assert_eq!(left(&asked(&alice).at(&other).await), first - 1);
    let mut connection = redis.connection().await;
    assert!(
        connection
            .exists::<_, bool>("gcra:http:user:alice")
            .await
            .unwrap()
    );

    redis.kill9();
    exhaust(|| asked(&alice), &one).await;
    exhaust(|| call("GET", COUNT), &one).await;
    redis.restart().await;
    eventually("the store counts again", async || {
        left(&asked(&alice).at(&one).await) == first - 2
    })
    .await;
}
