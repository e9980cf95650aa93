//! The message counter.

use parlor_chat::limits::RateLimitDecision;
use redis::pipe;

use super::fixture::{LimitsFixture, WINDOW, conversation, user};
use super::on_every_engine;

on_every_engine! {
    the_message_limit_applies_per_user_and_window;
    a_refund_restores_one_message_of_the_limit;
    the_window_is_over_at_its_end;
    a_pipeline_reads_the_same_answer;
    a_counter_without_an_end_gets_one;
}

async fn message(fixture: &LimitsFixture, node: usize) -> RateLimitDecision {
    fixture.nodes[node]
        .count_message(&user("alice"), 3)
        .await
        .unwrap()
}

async fn count(fixture: &LimitsFixture) -> Option<u32> {
    let key = fixture.keys.message_counter(&user("alice"));
    fixture.command("GET", &key, &[]).await
}

pub async fn the_message_limit_applies_per_user_and_window(fixture: LimitsFixture) {
    for remaining in [2, 1, 0] {
        let answer = message(&fixture, 0).await;
        assert!(answer.allowed);
        assert_eq!((answer.limit, answer.remaining), (3, remaining));
        assert_eq!(answer.retry_after_ms, None);
        fixture.assert_about(answer.reset_ms, WINDOW);
    }
    for node in [0, 1, 0] {
        let answer = message(&fixture, node).await;
        assert!(!answer.allowed);
        assert_eq!((answer.limit, answer.remaining), (3, 0));
        assert_eq!(answer.retry_after_ms, Some(answer.reset_ms));
        fixture.assert_about(answer.reset_ms, WINDOW);
    }
    assert_eq!(count(&fixture).await, Some(3));
    let bob = fixture.nodes[0]
        .count_message(&user("bob"), 3)
        .await
        .unwrap();
    assert_eq!(bob.remaining, 2);
    fixture.advance_clocks_and_ttls(WINDOW + 1).await;
    assert_eq!(message(&fixture, 1).await.remaining, 2);
}

pub async fn a_refund_restores_one_message_of_the_limit(fixture: LimitsFixture) {
    let (alice, node) = (user("alice"), &fixture.nodes[0]);
    node.refund_message(&alice).await.unwrap();
    assert_eq!(count(&fixture).await, None);
    for _ in 0..3 {
        assert!(message(&fixture, 0).await.allowed);
    }
    let half = WINDOW / 2;
    fixture.advance_clocks_and_ttls(half).await;
    node.refund_message(&alice).await.unwrap();
    assert_eq!(count(&fixture).await, Some(2));
    let key = fixture.keys.message_counter(&alice);
    fixture.assert_ttl(&key, half).await;
    let answer = message(&fixture, 1).await;
    assert!(answer.allowed);
    fixture.assert_about(answer.reset_ms, half);
    for left in [Some(2), Some(1), None, None] {
        node.refund_message(&alice).await.unwrap();
        assert_eq!(count(&fixture).await, left);
    }
    assert_eq!(message(&fixture, 0).await.remaining, 2);
}

async fn the_window_is_over_at_its_end(fixture: LimitsFixture) {
    for _ in 0..3 {
        message(&fixture, 0).await;
    }
    // Keys of a server expire a little earlier than by the test's clock.
    let early = 1 + fixture.tolerance_ms();
    fixture.advance_clocks_and_ttls(WINDOW - early).await;
    let answer = message(&fixture, 0).await;
    assert!(!answer.allowed);
    fixture.assert_about(answer.retry_after_ms.unwrap(), early);
    fixture.advance_clocks_and_ttls(early).await;
    let answer = message(&fixture, 0).await;
    assert_eq!((answer.allowed, answer.remaining), (true, 2));
    fixture.assert_about(answer.reset_ms, WINDOW);
}

async fn a_pipeline_reads_the_same_answer(fixture: LimitsFixture) {
    let (alice, node) = (user("alice"), &fixture.nodes[0]);
    let member = fixture.keys.membership(&conversation("c1"), &alice);
    for expected in [(true, 1), (true, 0), (false, 0)] {
        let mut both = pipe();
        both.cmd("GET").arg(&member);
        both.add_command(node.count_message_call(&alice, 2).cmd());
        let (known, answer): (Option<String>, RateLimitDecision) =
            both.query_async(&mut fixture.store.clone()).await.unwrap();
        assert_eq!(known, None);
        assert_eq!((answer.allowed, answer.remaining), expected);
    }
    assert_eq!(count(&fixture).await, Some(2));
    node.refund_message(&alice).await.unwrap();
    assert_eq!(count(&fixture).await, Some(1));
    // The refund is visible to a pipeline.
    let mut both = pipe();
    for _ in 0..2 {
        both.add_command(node.count_message_call(&alice, 2).cmd());
    }
    let answers: Vec<RateLimitDecision> =
        both.query_async(&mut fixture.store.clone()).await.unwrap();
    let answers = answers.iter().map(|it| (it.allowed, it.remaining));
    assert_eq!(answers.collect::<Vec<_>>(), [(true, 0), (false, 0)]);
    assert_eq!(count(&fixture).await, Some(2));
}

async fn a_counter_without_an_end_gets_one(fixture: LimitsFixture) {
    let key = fixture.keys.message_counter(&user("alice"));
    for (value, remaining) in [("1", 1), ("3", 0), ("99", 0), ("-7", 2), ("0", 2)] {
        let () = fixture.command("SET", &key, &[value]).await;
        assert_eq!(message(&fixture, 0).await.remaining, remaining, "{value}");
        fixture.assert_ttl(&key, WINDOW).await;
    }
}
