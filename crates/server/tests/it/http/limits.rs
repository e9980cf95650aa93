//! Tests of the route that checks rate limits for services.

use parlor_testkit::Redis;
use redis::AsyncCommands;
use serde_json::{Value, json};

use super::client::{call, embedded, on};
use crate::tokens::{admin, service, user};

const CHECK: &str = "/v1/limits/check";

fn with(more: &Value) -> Value {
    let mut body =
        json!({ "key": "login:alice", "algorithm": "fixed", "limit": 2, "windowMs": 600_000 });
    let more = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(more);
    body
}

#[tokio::test]
async fn every_algorithm_counts_and_rejects() {
    let redis = Redis::start().await;
    let node = on(&redis).await;
    for (algorithm, key) in [
        ("fixed", "rate_limit:login:alice"),
        ("sliding", "sliding_limit:login:alice"),
        ("gcra", "gcra:login:alice"),
    ] {
        let check = async |more: Value| {
            let mut body = with(&more);
            body["algorithm"] = algorithm.into();
            let post = call("POST", CHECK).by(&service());
            post.json(body).at(&node).await.ok()
        };
        let looked = check(json!({ "peek": true, "cost": 2 })).await;
        let free = json!({ "allowed": true, "limit": 2, "remaining": 2, "resetMs": 0 });
        assert_eq!(looked, free);
        let taken = check(json!({ "cost": 2 })).await;
        assert_eq!(taken["allowed"], true);
        assert_eq!(taken["remaining"], 0);
        assert_eq!(taken["resetMs"], 600_000);
        let refused = check(json!({})).await;
        assert_eq!(refused["allowed"], false);
        assert!(refused["retryAfterMs"].as_u64() > Some(0), "{refused}");
        let left: i64 = redis.connection().await.pttl(key).await.unwrap();
        assert!((1..=600_000).contains(&left), "{left}");
    }
}

#[tokio::test]
async fn invalid_checks_are_rejected_with_the_reason() {
    let node = embedded().await;
    let check = async |by: &str, body: Value| call("POST", CHECK).by(by).json(body).at(&node).await;
    check(&user("alice"), with(&json!({})))
        .await
        .refused(403, "forbidden");
    check(&admin("root"), with(&json!({}))).await.ok();
    for (wrong, part) in [
        (json!({ "limit": 10_001 }), "`limit` is 10001"),
        (json!({ "limit": -1 }), "`limit`: "),
        (json!({ "limit": null }), "`limit`: "),
        (json!({ "windowMs": 0 }), "`windowMs` is 0"),
        (json!({ "windowMs": 2_678_400_001_u64 }), "31 days"),
        (json!({ "cost": 3 }), "`cost` is 3"),
        (json!({ "cost": 0 }), "`cost` is 0"),
        (json!({ "algorithm": "leaky" }), "unknown variant `leaky`"),
        (json!({ "peek": "yes" }), "`peek`: "),
    ] {
        let answer = check(&service(), with(&wrong)).await;
        let detail = answer.refused(400, "invalid_request");
        assert!(detail.contains(part), "{wrong}: {detail}");
    }
    let answer = check(&service(), with(&json!({ "key": "a b" }))).await;
    answer.refused(400, "invalid_id");
}
