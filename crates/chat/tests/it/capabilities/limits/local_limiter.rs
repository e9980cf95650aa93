//! The local rate limiter returns the same decisions as the store, and its size is bounded.

use std::time::Duration;

use parlor_chat::clock::Timestamp;
use parlor_chat::limits::{LocalRateLimiter, MAX_LIMITERS, RateLimit, RateLimitAlgorithm};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::fixture::{LimitsFixture, WINDOW, id, limit};
use super::on_every_engine;

on_every_engine! {
    a_node_answers_as_the_store_does;
}

const HISTORIES: u64 = 40;
const STEPS: usize = 60;

/// Returns a random limit. Keys of a server expire in real time: there the time per request is too long to matter.
fn any_limit(rng: &mut StdRng, server: bool) -> RateLimit {
    let (requests, window) = if server {
        (rng.random_range(1..=40), rng.random_range(20..60) * WINDOW)
    } else {
        let most = [3, 20, 10_000][rng.random_range(0..3)];
        let longest = [5, 1_000, 2_678_400_000][rng.random_range(0..3)];
        (rng.random_range(1..=most), rng.random_range(1..=longest))
    };
    limit(
        RateLimitAlgorithm::Gcra,
        requests,
        window + rng.random_range(0..3),
    )
}

async fn a_node_answers_as_the_store_does(fixture: LimitsFixture) {
    let server = !fixture.primaries.is_empty();
    for seed in 0..HISTORIES {
        let mut rng = StdRng::seed_from_u64(seed);
        let fallback = LocalRateLimiter::new();
        let on = id(&format!("history-{seed}"));
        let mut limit = any_limit(&mut rng, server);
        for step in 0..STEPS {
            // Sometimes another limit for the same id.
            if rng.random_range(0..20) == 0 {
                limit = any_limit(&mut rng, server);
            }
            let each = limit.window_ms() / u64::from(limit.requests());
            let longest = [1, each + 2, limit.window_ms() + 2][rng.random_range(0..3)];
            fixture.advance_clocks(rng.random_range(0..longest));
            let here = fallback.check(&on, &limit, fixture.now());
            let there = fixture.nodes[0].check(&on, &limit, 1, false).await.unwrap();
            assert_eq!(here, there, "seed {seed} step {step} {limit:?}");
        }
    }
}

#[test]
fn the_oldest_are_forgotten_first() {
    let fallback = LocalRateLimiter::new();
    let one = RateLimit::new(RateLimitAlgorithm::Gcra, 1, Duration::from_secs(60)).unwrap();
    let now = Timestamp(1_735_689_600_000);
    let asked = |nth: usize| fallback.check(&id(&format!("10.0.0.1:{nth}")), &one, now);
    assert!(asked(0).allowed);
    let last = 3 * MAX_LIMITERS;
    for nth in 1..last {
        assert!(asked(nth).allowed);
        assert!(nth % 1_000 > 0 || fallback.len() <= MAX_LIMITERS);
        // A limiter in steady use is kept.
        assert!(nth % 10_000 > 0 || !asked(1).allowed);
    }
    assert!(fallback.len() >= MAX_LIMITERS / 2);
    for nth in last - MAX_LIMITERS / 2 + 1..last {
        assert!(!asked(nth).allowed, "{nth}");
    }
    assert!(asked(0).allowed, "the entry was dropped");
}
