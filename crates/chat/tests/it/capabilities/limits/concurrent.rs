//! Concurrent checks within one millisecond.

use parlor_chat::limits::{RateLimitAlgorithm, RateLimitDecision, RateLimiter};

use super::fixture::{LimitsFixture, WINDOW, id, limit, user};
use crate::support::Fixture;

const REQUESTS: usize = 1_000;
const LIMIT: u32 = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_at_once_are_a_hundred_embedded() {
    a_thousand_concurrent_checks_admit_exactly_the_limit(LimitsFixture::embedded(()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_at_once_are_a_hundred_redis() {
    a_thousand_concurrent_checks_admit_exactly_the_limit(LimitsFixture::redis(()).await).await;
}

/// Two nodes check at the same time, the clock stands still.
pub async fn a_thousand_concurrent_checks_admit_exactly_the_limit(fixture: LimitsFixture) {
    for &algorithm in RateLimitAlgorithm::ALL {
        let hundred = limit(algorithm, LIMIT, WINDOW);
        let check = move |node: RateLimiter, cost| async move {
            node.check(&id("x"), &hundred, cost, false).await.unwrap()
        };
        let decisions = at_once(&fixture, move |node| check(node, 1)).await;
        assert_exact(&decisions, 1);
        fixture.advance_clocks(WINDOW);
        let decisions = at_once(&fixture, move |node| check(node, 7)).await;
        assert_exact(&decisions, 7);
    }
    let decisions = at_once(&fixture, |node| async move {
        node.count_message(&user("alice"), LIMIT).await.unwrap()
    });
    assert_exact(&decisions.await, 1);
}

async fn at_once<F>(
    fixture: &LimitsFixture,
    ask: impl Fn(RateLimiter) -> F,
) -> Vec<RateLimitDecision>
where
    F: Future<Output = RateLimitDecision> + Send + 'static,
{
    let nodes = fixture.nodes.iter().cycle().take(REQUESTS);
    let tasks: Vec<_> = nodes.map(|it| tokio::spawn(ask(it.clone()))).collect();
    let mut decisions = Vec::new();
    for task in tasks {
        decisions.push(task.await.unwrap());
    }
    decisions
}

/// Asserts that the limit is used up exactly, that each admitted request saw another remaining number, and that the
/// other requests were rejected.
fn assert_exact(decisions: &[RateLimitDecision], cost: u32) {
    let (admitted, refused): (Vec<RateLimitDecision>, Vec<RateLimitDecision>) =
        decisions.iter().partition(|it| it.allowed);
    let mut remaining: Vec<_> = admitted.iter().map(|it| it.remaining).collect();
    remaining.sort_unstable();
    let step = usize::try_from(cost).unwrap();
    let expected: Vec<_> = (LIMIT % cost..=LIMIT - cost).step_by(step).collect();
    assert_eq!(remaining, expected);
    assert_eq!(admitted.len() + refused.len(), REQUESTS);
    for it in refused {
        assert!(it.remaining < cost && it.retry_after_ms > Some(0), "{it:?}");
    }
}
