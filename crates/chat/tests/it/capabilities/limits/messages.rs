//! The message counter.

use parlor_chat::limits::RateLimitDecision;
use redis::pipe;

use super::fixture::{WINDOW, World, conversation, user};
use super::on_every_engine;

on_every_engine! {
    the_message_limit_applies_per_user_and_window;
    a_refund_restores_one_message_of_the_limit;
    the_window_is_over_at_its_end;
    a_pipeline_reads_the_same_answer;
    a_counter_without_an_end_gets_one;
}

async fn message(world: &World, node: usize) -> RateLimitDecision {
    world.nodes[node]
        .count_message(&user("alice"), 3)
        .await
        .unwrap()
}

async fn count(world: &World) -> Option<u32> {
    let key = world.keys.message_counter(&user("alice"));
    world.ask("GET", &key, &[]).await
}

pub async fn the_message_limit_applies_per_user_and_window(world: World) {
    for remaining in [2, 1, 0] {
        let answer = message(&world, 0).await;
        assert!(answer.allowed);
        assert_eq!((answer.limit, answer.remaining), (3, remaining));
        assert_eq!(answer.retry_after_ms, None);
        world.assert_about(answer.reset_ms, WINDOW);
    }
    for node in [0, 1, 0] {
        let answer = message(&world, node).await;
        assert!(!answer.allowed);
        assert_eq!((answer.limit, answer.remaining), (3, 0));
        assert_eq!(answer.retry_after_ms, Some(answer.reset_ms));
        world.assert_about(answer.reset_ms, WINDOW);
    }
    assert_eq!(count(&world).await, Some(3));
    let bob = world.nodes[0].count_message(&user("bob"), 3).await.unwrap();
    assert_eq!(bob.remaining, 2);
    world.advance_clocks_and_ttls(WINDOW + 1).await;
    assert_eq!(message(&world, 1).await.remaining, 2);
}

pub async fn a_refund_restores_one_message_of_the_limit(world: World) {
    let (alice, node) = (user("alice"), &world.nodes[0]);
    node.refund_message(&alice).await.unwrap();
    assert_eq!(count(&world).await, None);
    for _ in 0..3 {
        assert!(message(&world, 0).await.allowed);
    }
    let half = WINDOW / 2;
    world.advance_clocks_and_ttls(half).await;
    node.refund_message(&alice).await.unwrap();
    assert_eq!(count(&world).await, Some(2));
    let key = world.keys.message_counter(&alice);
    world.assert_ttl(&key, half).await;
    let answer = message(&world, 1).await;
    assert!(answer.allowed);
    world.assert_about(answer.reset_ms, half);
    for left in [Some(2), Some(1), None, None] {
        node.refund_message(&alice).await.unwrap();
        assert_eq!(count(&world).await, left);
    }
    assert_eq!(message(&world, 0).await.remaining, 2);
}

async fn the_window_is_over_at_its_end(world: World) {
    for _ in 0..3 {
        message(&world, 0).await;
    }
    // Keys of a server expire a little earlier than by the test's clock.
    let early = 1 + world.tolerance_ms();
    world.advance_clocks_and_ttls(WINDOW - early).await;
    let answer = message(&world, 0).await;
    assert!(!answer.allowed);
    world.assert_about(answer.retry_after_ms.unwrap(), early);
    world.advance_clocks_and_ttls(early).await;
    let answer = message(&world, 0).await;
    assert_eq!((answer.allowed, answer.remaining), (true, 2));
    world.assert_about(answer.reset_ms, WINDOW);
}

async fn a_pipeline_reads_the_same_answer(world: World) {
    let (alice, node) = (user("alice"), &world.nodes[0]);
    let member = world.keys.membership(&conversation("c1"), &alice);
    for expected in [(true, 1), (true, 0), (false, 0)] {
        let mut both = pipe();
        both.cmd("GET").arg(&member);
        both.add_command(node.count_message_call(&alice, 2).cmd());
        let (known, answer): (Option<String>, RateLimitDecision) =
            both.query_async(&mut world.store.clone()).await.unwrap();
        assert_eq!(known, None);
        assert_eq!((answer.allowed, answer.remaining), expected);
    }
    assert_eq!(count(&world).await, Some(2));
    let mut back = pipe();
    back.add_command(node.give_back_call(&alice).cmd());
    back.exec_async(&mut world.store.clone()).await.unwrap();
    assert_eq!(count(&world).await, Some(1));
}

async fn a_counter_without_an_end_gets_one(world: World) {
    let key = world.keys.message_counter(&user("alice"));
    for (value, remaining) in [("1", 1), ("3", 0), ("99", 0), ("-7", 2), ("0", 2)] {
        let () = world.ask("SET", &key, &[value]).await;
        assert_eq!(message(&world, 0).await.remaining, remaining, "{value}");
        world.assert_ttl(&key, WINDOW).await;
    }
}
