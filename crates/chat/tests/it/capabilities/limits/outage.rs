//! The store is unavailable, and returns.

use parlor_chat::limits::{LocalRateLimiter, RateLimitAlgorithm};
use parlor_testkit::eventually;

use super::fixture::{LimitsFixture, WINDOW, allowed, check, id, limit, user};
use crate::support::Fixture;

#[tokio::test]
async fn without_a_store_a_check_fails_and_the_node_counts_by_itself() {
    let mut fixture = LimitsFixture::redis_with_short_timeout(()).await;
    let two = limit(RateLimitAlgorithm::Gcra, 2, WINDOW);
    let fallback = LocalRateLimiter::new();
    for _ in 0..2 {
        check(&fixture.nodes[0], &two).await;
    }
    fixture.server.as_mut().unwrap().kill9();
    let node = &fixture.nodes[0];
    for &algorithm in RateLimitAlgorithm::ALL {
        let limit = limit(algorithm, 2, WINDOW);
        let error = node.check(&id("x"), &limit, 1, false).await.unwrap_err();
        assert!(error.is_store_unavailable(), "{error}");
    }
    assert!(
        node.count_message(&user("alice"), 1)
            .await
            .unwrap_err()
            .is_store_unavailable()
    );
    assert!(
        node.refund_message(&user("alice"))
            .await
            .unwrap_err()
            .is_store_unavailable()
    );
    let now = fixture.now();
    for expected in [true, true, false] {
        assert_eq!(fallback.check(&id("x"), &two, now).allowed, expected);
    }

    fixture.server.as_mut().unwrap().restart_empty().await;
    let node = &fixture.nodes[0];
    // A peek, because a check whose reply is lost may be counted.
    let answer = eventually("the store is available", async || {
        node.check(&id("x"), &two, 1, true).await.ok()
    });
    assert_eq!(answer.await, allowed(2, 2, 0));
}
