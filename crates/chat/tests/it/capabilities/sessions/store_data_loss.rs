//! A store that has lost its data, or that contains older data.

use std::time::Duration;

use parlor_chat::api::error_code::ErrorCode;

use super::fixture::{SESSION_CACHE_TTL, SessionsFixture, user};
use super::on_every_engine;
use crate::support::Fixture;

on_every_engine! {
    a_lost_session_comes_back_from_the_row;
    a_deleted_session_does_not_come_back_with_the_next_loss;
    an_older_store_does_not_admit_a_blocked_user;
    an_older_store_does_not_bring_back_an_ended_session;
    an_old_session_is_not_brought_back;
}

pub async fn lose_data(fixture: &SessionsFixture) {
    for key in [
        fixture.key("alice"),
        fixture.keys.session_check(&user("alice")),
    ] {
        let mut cmd = redis::cmd("DEL");
        cmd.arg(key);
        cmd.exec_async(&mut fixture.store.clone()).await.unwrap();
    }
    fixture.raise_epoch().await;
}

pub async fn a_lost_session_comes_back_from_the_row(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    let before = fixture.hash("alice").await;
    lose_data(&fixture).await;
    assert_eq!(fixture.check_error(1, &alice).await, None);
    let after = fixture.hash("alice").await;
    assert_eq!(after, before);
}

async fn a_deleted_session_does_not_come_back_with_the_next_loss(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    fixture.advance(Duration::from_secs(60)).await;
    fixture.run_as_other_service("DEL", "alice", &[]).await;
    assert_eq!(
        fixture.check_error(1, &alice).await,
        Some(ErrorCode::SessionExpired)
    );
    lose_data(&fixture).await;
    assert_eq!(
        fixture.check_error(1, &alice).await,
        Some(ErrorCode::SessionExpired)
    );
}

pub async fn an_older_store_does_not_admit_a_blocked_user(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    fixture.nodes[0].block(&user("alice"), None).await.unwrap();
    fixture
        .run_as_other_service("HSET", "alice", &["status", "login", "active", "true"])
        .await;
    fixture.raise_epoch().await;
    assert_eq!(
        fixture.check_error(1, &alice).await,
        Some(ErrorCode::SessionBlocked)
    );
    assert_eq!(fixture.hash("alice").await["status"], "blocked");
}

async fn an_older_store_does_not_bring_back_an_ended_session(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    let old = fixture.hash("alice").await;
    let check_key = fixture.keys.session_check(&user("alice"));
    let mut get = redis::cmd("GET");
    get.arg(&check_key);
    let old_check: String = get.query_async(&mut fixture.store.clone()).await.unwrap();
    fixture.nodes[0].end(&user("alice")).await.unwrap();
    // The store returns with both keys as they were before the logout.
    let fields: Vec<&str> = old.iter().flat_map(|(k, v)| [&**k, &**v]).collect();
    fixture.run_as_other_service("HSET", "alice", &fields).await;
    let mut set = redis::cmd("SET");
    set.arg(&check_key).arg(old_check);
    set.exec_async(&mut fixture.store.clone()).await.unwrap();
    fixture.raise_epoch().await;
    assert_eq!(
        fixture.check_error(1, &alice).await,
        Some(ErrorCode::SessionExpired)
    );
    assert!(fixture.hash("alice").await.is_empty());
}

async fn an_old_session_is_not_brought_back(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    fixture.advance(Duration::from_secs(8 * 86_400)).await;
    lose_data(&fixture).await;
    fixture.advance(SESSION_CACHE_TTL).await;
    assert_eq!(
        fixture.check_error(1, &alice).await,
        Some(ErrorCode::SessionExpired)
    );
}

/// Without a store, sessions are checked with the rows.
#[tokio::test]
async fn sessions_are_checked_with_the_rows_while_the_store_is_unavailable() {
    let mut fixture = SessionsFixture::redis_with_short_timeout(()).await;
    let alice = fixture.caller_with_session("alice").await;
    let bob = fixture.caller_with_session("bob").await;
    fixture.nodes[0].block(&user("bob"), None).await.unwrap();
    fixture.kill_store();
    assert_eq!(fixture.check_error(1, &alice).await, None);
    assert_eq!(
        fixture.check_error(1, &bob).await,
        Some(ErrorCode::SessionBlocked)
    );
    let carol = fixture.caller("carol");
    assert_eq!(
        fixture.check_error(1, &carol).await,
        Some(ErrorCode::SessionExpired)
    );
}
