//! A store that has lost its data, or that contains older data.

use std::time::Duration;

use parlor_chat::api::error_code::Code;

use super::fixture::{SESSION_CACHE_TTL, World, user};
use super::on_every_engine;

on_every_engine! {
    a_lost_session_comes_back_from_the_row;
    a_deleted_session_does_not_come_back_with_the_next_loss;
    an_older_store_does_not_let_a_blocked_user_in;
    an_older_store_does_not_bring_back_an_ended_session;
    an_old_session_is_not_brought_back;
}

async fn empty(world: &World) {
    for key in [world.key("alice"), world.keys.session_check(&user("alice"))] {
        let mut cmd = redis::cmd("DEL");
        cmd.arg(key);
        cmd.exec_async(&mut world.store.clone()).await.unwrap();
    }
    world.raise_epoch().await;
}

pub async fn a_lost_session_comes_back_from_the_row(world: World) {
    let alice = world.caller_with_session("alice").await;
    let before = world.hash("alice").await;
    empty(&world).await;
    assert_eq!(world.check_error(1, &alice).await, None);
    let after = world.hash("alice").await;
    assert_eq!(after, before);
}

async fn a_deleted_session_does_not_come_back_with_the_next_loss(world: World) {
    let alice = world.caller_with_session("alice").await;
    world.advance(Duration::from_secs(60)).await;
    world.run_as_other_service("DEL", "alice", &[]).await;
    assert_eq!(
        world.check_error(1, &alice).await,
        Some(Code::SessionExpired)
    );
    empty(&world).await;
    assert_eq!(
        world.check_error(1, &alice).await,
        Some(Code::SessionExpired)
    );
}

pub async fn an_older_store_does_not_let_a_blocked_user_in(world: World) {
    let alice = world.caller_with_session("alice").await;
    world.nodes[0].block(&user("alice"), None).await.unwrap();
    world
        .run_as_other_service("HSET", "alice", &["status", "login", "active", "true"])
        .await;
    world.raise_epoch().await;
    assert_eq!(
        world.check_error(1, &alice).await,
        Some(Code::SessionBlocked)
    );
    assert_eq!(world.hash("alice").await["status"], "blocked");
}

async fn an_older_store_does_not_bring_back_an_ended_session(world: World) {
    let alice = world.caller_with_session("alice").await;
    let old = world.hash("alice").await;
    world.nodes[0].end(&user("alice")).await.unwrap();
    let fields: Vec<&str> = old.iter().flat_map(|(k, v)| [&**k, &**v]).collect();
    world.run_as_other_service("HSET", "alice", &fields).await;
    world.raise_epoch().await;
    assert_eq!(
        world.check_error(1, &alice).await,
        Some(Code::SessionExpired)
    );
    assert!(world.hash("alice").await.is_empty());
}

async fn an_old_session_is_not_brought_back(world: World) {
    let alice = world.caller_with_session("alice").await;
    world.advance(Duration::from_secs(8 * 86_400)).await;
    empty(&world).await;
    world.advance(SESSION_CACHE_TTL).await;
    assert_eq!(
        world.check_error(1, &alice).await,
        Some(Code::SessionExpired)
    );
}

/// Without a store, sessions are checked with the rows.
#[tokio::test]
async fn while_the_store_is_away_the_rows_answer() {
    let mut world = World::impatient().await;
    let alice = world.caller_with_session("alice").await;
    let bob = world.caller_with_session("bob").await;
    world.nodes[0].block(&user("bob"), None).await.unwrap();
    world.kill_store();
    assert_eq!(world.check_error(1, &alice).await, None);
    assert_eq!(world.check_error(1, &bob).await, Some(Code::SessionBlocked));
    let carol = world.caller("carol");
    assert_eq!(
        world.check_error(1, &carol).await,
        Some(Code::SessionExpired)
    );
}
