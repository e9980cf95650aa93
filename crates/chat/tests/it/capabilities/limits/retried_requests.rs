//! The reply of a check is lost, and the same command is executed again.

use parlor_chat::limits::RateLimitAlgorithm::{Fixed, Sliding};
use parlor_chat::limits::RateLimitDecision;

use super::fixture::{LimitsFixture, WINDOW, allowed, check, id, limit};
use super::on_every_engine;

on_every_engine! {
    the_same_request_counts_once;
    two_requests_in_one_millisecond_are_two;
}

pub async fn the_same_request_counts_once(fixture: LimitsFixture) {
    for algorithm in [Fixed, Sliding] {
        let (node, three) = (&fixture.nodes[0], limit(algorithm, 3, WINDOW));
        let call = node.check_call(&id("x"), &three, 2, false).unwrap();
        for _ in 0..3 {
            let answer: RateLimitDecision = call.clone().run(&fixture.store).await.unwrap();
            assert_eq!(answer, allowed(3, 1, WINDOW));
        }
        // Also if other requests have used the rest of the limit meanwhile.
        assert_eq!(check(node, &three).await, allowed(3, 0, WINDOW));
        let answer: RateLimitDecision = call.clone().run(&fixture.store).await.unwrap();
        assert_eq!(answer, allowed(3, 0, WINDOW));
        assert!(!check(node, &three).await.allowed);
    }
}

async fn two_requests_in_one_millisecond_are_two(fixture: LimitsFixture) {
    for algorithm in [Fixed, Sliding] {
        let many = limit(algorithm, 500, WINDOW);
        for nth in 1..=500 {
            let answer = check(&fixture.nodes[nth % 2], &many).await;
            assert_eq!(usize::try_from(answer.remaining).unwrap(), 500 - nth);
        }
        let key = fixture.key(algorithm, "x");
        assert_eq!(fixture.command::<u32>("ZCARD", &key, &[]).await, 500);
    }
}
