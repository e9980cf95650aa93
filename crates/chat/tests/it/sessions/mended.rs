//! What was left undone, written by others, or done at once, and is set right.

use std::time::Duration;

use parlor_chat::code::Code;
use parlor_chat::database::Either;
use parlor_chat::keys::Key;

use super::on_every_engine;
use super::world::{FRESH, World, user};

on_every_engine! {
    a_block_that_the_store_did_not_take_is_made_up_for;
    blocks_at_once_end_as_the_rows_say;
    who_comes_after_hours_is_noted_by_a_node_that_does_not_know_them;
    a_foreign_value_in_the_place_of_a_session_is_no_session;
}

/// What the rows say about Alice.
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

async fn a_block_that_the_store_did_not_take_is_made_up_for(world: World) {
    let alice = world.signed_in("alice").await;
    let companion = world.keys.revoked(&user("alice"));
    let held = run(&world, "GET", &companion, &[]).await.unwrap();
    run(&world, "DEL", &companion, &[]).await;
    run(&world, "RPUSH", &companion, &["x"]).await;
    let blocked = world.nodes[0].block(&user("alice"), None).await;
    assert!(blocked.is_err(), "the store refused");
    run(&world, "DEL", &companion, &[]).await;
    run(&world, "SET", &companion, &[&held]).await;
    world.nodes[0].pay().await.unwrap();
    world.advance(FRESH).await;
    assert_eq!(world.refused(1, &alice).await, Some(Code::SessionBlocked));
    assert_eq!(world.hash("alice").await["status"], "blocked");
}

async fn blocks_at_once_end_as_the_rows_say(world: World) {
    world.signed_in("alice").await;
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

async fn who_comes_after_hours_is_noted_by_a_node_that_does_not_know_them(world: World) {
    let alice = world.signed_in("alice").await;
    world.advance(Duration::from_secs(2 * 3_600)).await;
    assert_eq!(world.refused(1, &alice).await, None);
    let asked = "SELECT last_seen FROM sessions WHERE user_id = 'alice'";
    let seen = number(&world, asked).await.unwrap();
    assert_eq!(seen.unsigned_abs(), world.now().ms());
}

async fn a_foreign_value_in_the_place_of_a_session_is_no_session(world: World) {
    let alice = world.signed_in("alice").await;
    let key = world.key("alice");
    run(&world, "DEL", &key, &[]).await;
    run(&world, "RPUSH", &key, &["x"]).await;
    assert_eq!(world.refused(1, &alice).await, Some(Code::SessionExpired));
    world.nodes[0].block(&user("alice"), None).await.unwrap();
    world.advance(FRESH).await;
    assert_eq!(world.refused(1, &alice).await, Some(Code::SessionBlocked));
}
