//! Updates that failed, that other services wrote, or that ran concurrently.

use std::time::Duration;

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::database::PerBackend;
use parlor_chat::keys::Key;

use super::fixture::{SESSION_CACHE_TTL, SessionsFixture, user};
use super::on_every_engine;

on_every_engine! {
    a_block_that_failed_in_the_store_is_retried;
    concurrent_blocks_and_unblocks_end_as_the_rows_say;
    the_first_check_on_a_node_updates_last_seen;
    a_session_beside_a_key_of_another_type_is_in_the_rows;
}

/// Runs a query that returns a number.
async fn number(fixture: &SessionsFixture, asked: &'static str) -> Option<i64> {
    match fixture.database().await.reader() {
        PerBackend::Sqlite(pool) => sqlx::query_scalar(asked).fetch_one(pool).await.unwrap(),
        PerBackend::Postgres(pool) => sqlx::query_scalar(asked).fetch_one(pool).await.unwrap(),
    }
}

async fn run(fixture: &SessionsFixture, name: &str, key: &Key, rest: &[&str]) -> Option<String> {
    let mut cmd = redis::cmd(name);
    cmd.arg(key).arg(rest);
    let reply: redis::Value = cmd.query_async(&mut fixture.store.clone()).await.unwrap();
    redis::from_redis_value(reply).ok()
}

async fn a_block_that_failed_in_the_store_is_retried(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    let check_key = fixture.keys.session_check(&user("alice"));
    let value = run(&fixture, "GET", &check_key, &[]).await.unwrap();
    run(&fixture, "DEL", &check_key, &[]).await;
    run(&fixture, "RPUSH", &check_key, &["x"]).await;
    let blocked = fixture.nodes[0].block(&user("alice"), None).await;
    assert!(blocked.is_err(), "the store rejected the update");
    run(&fixture, "DEL", &check_key, &[]).await;
    run(&fixture, "SET", &check_key, &[&value]).await;
    fixture.drain_outbox().await;
    fixture.advance(SESSION_CACHE_TTL).await;
    assert_eq!(
        fixture.check_error(1, &alice).await,
        Some(ErrorCode::SessionBlocked)
    );
    assert_eq!(fixture.hash("alice").await["status"], "blocked");
}

async fn concurrent_blocks_and_unblocks_end_as_the_rows_say(fixture: SessionsFixture) {
    fixture.caller_with_session("alice").await;
    let alice = user("alice");
    for round in 0..40 {
        let [one, other] = [&fixture.nodes[round % 2], &fixture.nodes[1 - round % 2]];
        let (blocked, unblocked) = tokio::join!(one.block(&alice, None), other.unblock(&alice));
        drop((blocked.unwrap(), unblocked.unwrap()));
        let asked = "SELECT blocked_at FROM users WHERE id = 'alice'";
        let expected = match number(&fixture, asked).await {
            Some(_) => "blocked",
            None => "login",
        };
        let hash = fixture.hash("alice").await;
        assert_eq!(hash["status"], expected, "round {round}");
    }
}

async fn the_first_check_on_a_node_updates_last_seen(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    fixture.advance(Duration::from_secs(2 * 3_600)).await;
    assert_eq!(fixture.check_error(1, &alice).await, None);
    let asked = "SELECT last_seen FROM sessions WHERE user_id = 'alice'";
    let seen = number(&fixture, asked).await.unwrap();
    assert_eq!(seen.unsigned_abs(), fixture.now().as_millis());
}

async fn a_session_beside_a_key_of_another_type_is_in_the_rows(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    let key = fixture.key("alice");
    run(&fixture, "DEL", &key, &[]).await;
    run(&fixture, "RPUSH", &key, &["x"]).await;
    assert_eq!(fixture.check_error(1, &alice).await, None);
    fixture.nodes[0].block(&user("alice"), None).await.unwrap();
    fixture.advance(SESSION_CACHE_TTL).await;
    assert_eq!(
        fixture.check_error(1, &alice).await,
        Some(ErrorCode::SessionBlocked)
    );
    let items = run(&fixture, "LINDEX", &key, &["0"]).await;
    assert_eq!(items.as_deref(), Some("x"));
}
