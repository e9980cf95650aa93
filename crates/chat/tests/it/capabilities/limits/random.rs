//! Random histories on two nodes, compared with a model that uses no store.

mod model;

use parlor_chat::limits::RateLimitAlgorithm;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use self::model::Model;
use super::fixture::{LimitsFixture, WINDOW, id, limit, user};
use super::on_every_engine;
use crate::support::Fixture;

on_every_engine! {
    every_answer_is_that_of_the_model;
}

const HISTORIES: u64 = 30;
const STEPS: usize = 60;

async fn every_answer_is_that_of_the_model(fixture: LimitsFixture) {
    let server = !fixture.primaries.is_empty();
    for seed in 0..HISTORIES {
        for &algorithm in RateLimitAlgorithm::ALL {
            let mut rng = StdRng::seed_from_u64(seed);
            // Keys of a server expire in real time: there the time per request is so long that it does not matter.
            let longest = [3, 50, 100_000][rng.random_range(0..3)];
            let window = if server {
                20 * WINDOW + rng.random_range(0..1_000)
            } else {
                rng.random_range(1..=longest)
            };
            let limit = limit(algorithm, rng.random_range(1..=30), window);
            let on = id(&format!("history-{seed}"));
            let mut model = Model::new(&limit, fixture.now().as_millis());
            for step in 0..STEPS {
                let by = [1, window / 10 + 2, window + 2][rng.random_range(0..3)];
                fixture.advance_clocks(rng.random_range(0..by));
                let cost = rng.random_range(1..=limit.requests());
                let cost = cost.min(rng.random_range(1..=10));
                let peek = rng.random_range(0..5) == 0;
                let node = &fixture.nodes[rng.random_range(0..2)];
                let decision = node.check(&on, &limit, cost, peek).await.unwrap();
                let expected = model.check(&limit, cost, peek, fixture.now().as_millis());
                assert_eq!(
                    decision, expected,
                    "seed {seed} step {step} {limit:?} {cost} {peek}"
                );
            }
        }
    }
}

/// Only on the embedded engine, whose keys follow the test's clock: the counter has no time but its TTL.
#[tokio::test]
async fn every_count_of_messages_is_that_of_the_model() {
    let fixture = LimitsFixture::embedded(()).await;
    for seed in 0..HISTORIES {
        let mut rng = StdRng::seed_from_u64(seed);
        let (alice, most) = (user(&format!("u{seed}")), rng.random_range(1..8));
        let (mut end, mut used) = (0, 0);
        for step in 0..STEPS {
            let by = [1, WINDOW / 10, WINDOW][rng.random_range(0..3)];
            fixture.advance_clocks(rng.random_range(0..=by));
            let now = fixture.now().as_millis();
            if now >= end {
                used = 0;
            }
            let node = &fixture.nodes[rng.random_range(0..2)];
            if rng.random_range(0..4) == 0 {
                node.refund_message(&alice).await.unwrap();
                used = u32::saturating_sub(used, 1);
                continue;
            }
            let decision = node.count_message(&alice, most).await.unwrap();
            let fits = used < most;
            if used == 0 {
                end = now + WINDOW;
            }
            used += u32::from(fits);
            let at = format!("seed {seed} step {step}");
            assert_eq!(
                (decision.allowed, decision.remaining),
                (fits, most - used),
                "{at}"
            );
            assert_eq!(decision.reset_ms, end - now, "{at}");
            assert_eq!(
                decision.retry_after_ms,
                (!fits).then_some(end - now),
                "{at}"
            );
        }
    }
}
