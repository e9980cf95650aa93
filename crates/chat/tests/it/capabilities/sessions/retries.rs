//! Updates that failed, that other services wrote, or that ran concurrently.

use std::time::Duration;

use parlor_chat::api::error_code::Code;
use parlor_chat::database::Either;
use parlor_chat::keys::Key;

use super::fixture::{SESSION_CACHE_TTL, World, user};
use super::on_every_engine;

on_every_engine! {
    a_block_that_failed_in_the_store_is_retried;
    blocks_at_once_end_as_the_rows_say;
    the_first_check_on_a_node_updates_last_seen;
    a_foreign_value_in_the_place_of_a_session_is_no_session;
}

/// Runs a query that returns a number.
async fn number(world: &World, asked: &'static str) -> Option<i64> {
    match world.database().await.reader() {
        Either::Sqlite(pool) => sqlx::query_scalar(asked).fetch_one(pool).await.unwrap(),
        Either::Postgres(pool) => sqlx::query_scalar(asked).fetch_one(pool).await.unwrap(),
    }
}

async fn run(world: &World, name: &str, key: &Key, rest: &[&str]) -> Option<String> {
    let mut cmd = redis::cmd(name);
    cmd.arg(key).arg(rest);
    let reply: redis::Value = cmd.query_async(&mut world.store.clone()).await.unwrap();
    redis::from_redis_value(reply).ok()
}

async fn a_block_that_failed_in_the_store_is_retried(world: World) {
    let alice = world.caller_with_session("alice").await;
    let companion = world.keys.session_check(&user("alice"));
    let held = run(&world, "GET", &companion, &[]).await.unwrap();
    run(&world, "DEL", &companion, &[]).await;
    run(&world, "RPUSH", &companion, &["x"]).await;
    let blocked = world.nodes[0].block(&user("alice"), None).await;
    assert!(blocked.is_err(), "the store rejected the update");
    run(&world, "DEL", &companion, &[]).await;
    run(&world, "SET", &companion, &[&held]).await;
    world.nodes[0].retry_pending().await.unwrap();
    world.advance(SESSION_CACHE_TTL).await;
    assert_eq!(
        world.check_error(1, &alice).await,
        Some(Code::SessionBlocked)
    );
    assert_eq!(world.hash("alice").await["status"], "blocked");
}

async fn blocks_at_once_end_as_the_rows_say(world: World) {
    world.caller_with_session("alice").await;
    let alice = user("alice");
    for round in 0..40 {
        let [one, other] = [&world.nodes[round % 2], &world.nodes[1 - round % 2]];
        let (blocked, unblocked) = tokio::join!(one.block(&alice, None), other.unblock(&alice));
        drop((blocked.unwrap(), unblocked.unwrap()));
        let asked = "SELECT blocked_at FROM users WHERE id = 'alice'";
        let expected = match number(&world, asked).await {
            Some(_) => "blocked",
            None => "login",
        };
        let hash = world.hash("alice").await;
        assert_eq!(hash["status"], expected, "round {round}");
    }
}

async fn the_first_check_on_a_node_updates_last_seen(world: World) {
    let alice = world.caller_with_session("alice").await;
    world.advance(Duration::from_secs(2 * 3_600)).await;
    assert_eq!(world.check_error(1, &alice).await, None);
    let asked = "SELECT last_seen FROM sessions WHERE user_id = 'alice'";
    let seen = number(&world, asked).await.unwrap();
    assert_eq!(seen.unsigned_abs(), world.now().as_millis());
}

async fn a_foreign_value_in_the_place_of_a_session_is_no_session(world: World) {
    let alice = world.caller_with_session("alice").await;
    let key = world.key("alice");
    run(&world, "DEL", &key, &[]).await;
    run(&world, "RPUSH", &key, &["x"]).await;
    assert_eq!(
        world.check_error(1, &alice).await,
        Some(Code::SessionExpired)
    );
    world.nodes[0].block(&user("alice"), None).await.unwrap();
    world.advance(SESSION_CACHE_TTL).await;
    assert_eq!(
        world.check_error(1, &alice).await,
        Some(Code::SessionBlocked)
    );
}
