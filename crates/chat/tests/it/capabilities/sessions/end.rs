//! Ending sessions and blocking users.

use std::time::Duration;

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::sessions::SessionStatus;

use super::fixture::{SESSION_CACHE_TTL, SessionsFixture, code, user};
use super::on_every_engine;

const SECOND: Duration = Duration::from_secs(1);

on_every_engine! {
    a_logout_ends_the_session_and_its_tokens;
    a_blocked_user_is_refused_at_once_and_on_every_node_within_a_second;
    a_blocked_user_cannot_begin_a_session;
    a_block_remains_after_the_session_key_expires;
    an_unblocked_user_continues_the_session;
    concurrent_logins_and_logouts_end_as_the_rows_say;
}

pub async fn a_logout_ends_the_session_and_its_tokens(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    assert_eq!(fixture.check_error(1, &alice).await, None);
    fixture.nodes[0].end(&user("alice")).await.unwrap();
    assert!(fixture.hash("alice").await.is_empty());
    assert_eq!(
        fixture.check_error(0, &alice).await,
        Some(ErrorCode::SessionExpired)
    );
    fixture.advance(SESSION_CACHE_TTL).await;
    assert_eq!(
        fixture.check_error(1, &alice).await,
        Some(ErrorCode::SessionExpired)
    );
    let again = fixture.nodes[1].begin(&alice, None).await;
    assert_eq!(code(again), Some(ErrorCode::SessionExpired));
    assert!(fixture.hash("alice").await.is_empty());
    // A token that was issued one second later can begin a new session.
    fixture.advance(SECOND).await;
    let later = fixture.caller("alice");
    fixture.nodes[1].begin(&later, None).await.unwrap();
    assert_eq!(fixture.check_error(0, &later).await, None);
    assert_eq!(
        fixture.check_error(0, &alice).await,
        Some(ErrorCode::SessionExpired)
    );
}

pub async fn a_blocked_user_is_refused_at_once_and_on_every_node_within_a_second(
    fixture: SessionsFixture,
) {
    let alice = fixture.caller_with_session("alice").await;
    assert_eq!(fixture.check_error(1, &alice).await, None);
    let blocked = fixture.nodes[0]
        .block(&user("alice"), Some("spam"))
        .await
        .unwrap();
    assert_eq!(blocked.status, SessionStatus::Blocked);
    assert_eq!(
        fixture.check_error(0, &alice).await,
        Some(ErrorCode::SessionBlocked)
    );
    // This node has received no notification, because it does not listen to the bus in this test.
    fixture.advance(SESSION_CACHE_TTL).await;
    assert_eq!(
        fixture.check_error(1, &alice).await,
        Some(ErrorCode::SessionBlocked)
    );
    let hash = fixture.hash("alice").await;
    assert_eq!((&*hash["status"], &*hash["active"]), ("blocked", "false"));
    assert_eq!(hash["device_id"], "phone");
}

async fn a_blocked_user_cannot_begin_a_session(fixture: SessionsFixture) {
    fixture.nodes[0].block(&user("bob"), None).await.unwrap();
    fixture.advance(SECOND).await;
    let bob = fixture.caller("bob");
    assert_eq!(
        code(fixture.nodes[1].begin(&bob, None).await),
        Some(ErrorCode::SessionBlocked)
    );
    assert_eq!(
        fixture.check_error(1, &bob).await,
        Some(ErrorCode::SessionBlocked)
    );
    // A block that another service wrote into the hash is effective without a row.
    let carol = fixture.caller_with_session("carol").await;
    fixture
        .run_as_other_service("HSET", "carol", &["status", "blocked"])
        .await;
    assert_eq!(
        code(fixture.nodes[1].begin(&carol, None).await),
        Some(ErrorCode::SessionBlocked)
    );
}

async fn a_block_remains_after_the_session_key_expires(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    fixture.nodes[0].block(&user("alice"), None).await.unwrap();
    fixture.advance(Duration::from_secs(8 * 86_400)).await;
    assert!(fixture.hash("alice").await.is_empty());
    assert_eq!(
        fixture.check_error(1, &alice).await,
        Some(ErrorCode::SessionBlocked)
    );
    let token = fixture.caller("alice");
    assert_eq!(
        code(fixture.nodes[1].begin(&token, None).await),
        Some(ErrorCode::SessionBlocked)
    );
}

async fn an_unblocked_user_continues_the_session(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    fixture.nodes[0].block(&user("alice"), None).await.unwrap();
    let again = fixture.nodes[1].unblock(&user("alice")).await.unwrap();
    assert_eq!(
        (again.status, again.device_id.as_str()),
        (SessionStatus::Login, "phone")
    );
    assert_eq!(fixture.check_error(1, &alice).await, None);
    fixture.advance(SESSION_CACHE_TTL).await;
    assert_eq!(fixture.check_error(0, &alice).await, None);
    // A user without a session has none after the block either.
    fixture.nodes[0].block(&user("bob"), None).await.unwrap();
    let none = fixture.nodes[0].unblock(&user("bob")).await;
    assert_eq!(code(none), Some(ErrorCode::SessionExpired));
    assert!(fixture.hash("bob").await.is_empty());
}

async fn concurrent_logins_and_logouts_end_as_the_rows_say(fixture: SessionsFixture) {
    for round in 0..20 {
        let name = format!("user-{round}");
        let token = fixture.caller(&name);
        let id = user(&name);
        let (first, second) = (&fixture.nodes[0], &fixture.nodes[1]);
        let (_, ended, _, _) = tokio::join!(
            first.begin(&token, Some("phone")),
            second.end(&id),
            second.begin(&token, Some("laptop")),
            first.check(token.clone()),
        );
        ended.unwrap();
        // A node may use a result of the race from its cache for one second.
        fixture.advance(SESSION_CACHE_TTL).await;
        for node in [0, 1] {
            let answer = fixture.check_error(node, &token).await;
            assert_eq!(answer, Some(ErrorCode::SessionExpired), "{name}");
        }
        fixture.nodes[0]
            .begin(&fixture.caller(&name), None)
            .await
            .unwrap();
        let token = fixture.caller(&name);
        let (_, blocked, _) = tokio::join!(
            first.begin(&token, Some("phone")),
            second.block(&id, None),
            second.begin(&token, Some("laptop")),
        );
        blocked.unwrap();
        fixture.advance(SESSION_CACHE_TTL).await;
        for node in [0, 1] {
            let answer = fixture.check_error(node, &token).await;
            assert_eq!(answer, Some(ErrorCode::SessionBlocked), "{name}");
        }
    }
}
