//! Concurrent callers of a key set: waiting for one fetch, and cancellation.

use futures_util::FutureExt;
use parlor_testkit::eventually;
use tokio::runtime::Handle;

use super::super::jwks::{MAX_KEY_AGE_MS, MIN_FETCH_INTERVAL_MS};
use super::super::*;
use super::fake_issuer::FakeIssuer;
use super::fixtures::{NOW, TestKeyPair};
use super::jwks::{advance, authenticator_for, token};

#[tokio::test]
async fn on_a_node_that_was_idle_all_wait_for_the_first_fetch() {
    let (old, new) = (TestKeyPair::ec(), TestKeyPair::ec());
    let issuer = FakeIssuer::start().await;
    issuer.publish(&[(Some("old"), &old)]);
    let (authenticator, clock) = authenticator_for(&issuer).await;
    let authenticator = Arc::new(authenticator);
    issuer.publish(&[(Some("new"), &new)]);
    issuer.hold();
    advance(&clock, 2 * MAX_KEY_AGE_MS);
    let verify = || {
        let (authenticator, token) = (Arc::clone(&authenticator), token(&old, Some("old")));
        tokio::spawn(async move { authenticator.verify(&token).await })
    };
    let first = verify();
    eventually("the issuer is asked", async || issuer.request_count() == 2).await;
    let second = verify();
    // Lets the second task run before the response arrives.
    tokio::task::yield_now().await;
    issuer.release();
    for caller in [first, second] {
        assert_eq!(caller.await.unwrap(), Err(AuthError::UnknownKey));
    }
    assert_eq!(issuer.request_count(), 2);
}

#[tokio::test]
async fn cancelled_waiters_leave_no_state_behind() {
    let (first, second) = (TestKeyPair::ec(), TestKeyPair::ec());
    let issuer = FakeIssuer::start().await;
    issuer.publish(&[(Some("1"), &first)]);
    let (authenticator, clock) = authenticator_for(&issuer).await;
    issuer.publish(&[(Some("2"), &second)]);
    issuer.hold();
    advance(&clock, MIN_FETCH_INTERVAL_MS);
    let token = token(&second, Some("2"));
    let tasks = || Handle::current().metrics().num_alive_tasks();
    // The fetch is one task; a connection of the fake issuer may start or end meanwhile.
    for _ in 0..100 {
        assert_eq!(authenticator.verify(&token).now_or_never(), None);
    }
    assert!(tasks() < 10, "{}", tasks());
    eventually("the issuer is asked", async || issuer.request_count() == 2).await;
    for _ in 0..100 {
        assert_eq!(authenticator.verify(&token).now_or_never(), None);
    }
    assert!(tasks() < 10, "{}", tasks());
    issuer.release();
    assert!(authenticator.verify(&token).await.is_ok());
    assert_eq!(issuer.request_count(), 2);
}

#[tokio::test]
async fn tokens_with_a_known_key_do_not_wait_for_an_unreachable_issuer() {
    let pair = TestKeyPair::ec();
    let issuer = FakeIssuer::start().await;
    issuer.publish(&[(Some("1"), &pair)]);
    let (authenticator, clock) = authenticator_for(&issuer).await;
    let token = token(&pair, Some("1"));
    issuer.say(503, "");
    advance(&clock, 3 * MAX_KEY_AGE_MS);
    assert!(authenticator.verify(&token).await.is_ok());
    assert_eq!(issuer.request_count(), 2);
    issuer.hold();
    advance(&clock, MIN_FETCH_INTERVAL_MS);
    for _ in 0..3 {
        let verdict = authenticator.verify(&token).now_or_never();
        assert!(matches!(verdict, Some(Ok(_))), "{verdict:?}");
    }
    eventually("the issuer is asked", async || issuer.request_count() == 3).await;
    let verdict = authenticator.verify(&token).now_or_never();
    assert!(matches!(verdict, Some(Ok(_))), "{verdict:?}");
}

#[tokio::test]
async fn a_clock_set_back_neither_stops_nor_multiplies_fetches() {
    let (first, second, stranger) = (TestKeyPair::ec(), TestKeyPair::ec(), TestKeyPair::ec());
    let issuer = FakeIssuer::start().await;
    issuer.publish(&[(Some("1"), &first)]);
    let (authenticator, clock) = authenticator_for(&issuer).await;
    issuer.publish(&[(Some("2"), &second)]);
    clock.set(NOW * 1_000 - 20_000);
    assert_eq!(
        authenticator.verify(&token(&second, Some("2"))).await,
        Err(AuthError::UnknownKey)
    );
    assert_eq!(issuer.request_count(), 1);
    // Within the leeway of the tokens, so that their times do not matter.
    clock.set(NOW * 1_000 - 30_000);
    assert!(
        authenticator
            .verify(&token(&second, Some("2")))
            .await
            .is_ok()
    );
    for kid in ["x", "y", "z"] {
        let refused = authenticator.verify(&token(&stranger, Some(kid))).await;
        assert_eq!(refused, Err(AuthError::UnknownKey));
    }
    assert_eq!(issuer.request_count(), 2);
}
