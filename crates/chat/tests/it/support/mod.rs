//! Helpers that several test folders share.

#![expect(
    clippy::unwrap_used,
    reason = "a failing test reports the cause by its panic"
)]

pub mod backend;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use parlor_chat::api::caller::{Caller, Role};
use parlor_chat::ids::{ConversationId, UserId};
use parlor_testkit::RedisCluster;

use self::backend::TestBackend;

/// Nodes and helpers of one test folder, built on a backend. A `Variant` is for example a key layout.
pub trait Fixture<Variant = ()>: Sized {
    async fn on(backend: TestBackend, variant: Variant) -> Self;

    async fn embedded(variant: Variant) -> Self {
        Self::on(TestBackend::embedded().await, variant).await
    }

    async fn redis(variant: Variant) -> Self {
        Self::on(TestBackend::redis().await, variant).await
    }

    async fn valkey(variant: Variant) -> Self {
        Self::on(TestBackend::valkey().await, variant).await
    }

    async fn redis_with_short_timeout(variant: Variant) -> Self {
        Self::on(TestBackend::redis_with_short_timeout().await, variant).await
    }

    async fn cluster(cluster: &mut RedisCluster, variant: Variant) -> Self {
        Self::on(TestBackend::cluster(cluster).await, variant).await
    }
}

/// Declares one test per body and engine: `body::embedded` and `body::redis`. The type of the body's argument selects
/// the [`Fixture`].
macro_rules! on_every_engine {
    ($($body:ident;)+) => { $(
        mod $body {
            crate::support::test_on_engines!(super::$body, ());
        }
    )+ };
}
pub(crate) use on_every_engine;

/// Declares the tests of one body on each engine. Use it directly for bodies with variants.
macro_rules! test_on_engines {
    ($body:path, $variant:expr) => {
        #[tokio::test]
        async fn embedded() {
            let backend = crate::support::backend::TestBackend::embedded().await;
            crate::support::run_on(backend, $variant, $body).await;
        }

        #[tokio::test]
        async fn redis() {
            let backend = crate::support::backend::TestBackend::redis().await;
            crate::support::run_on(backend, $variant, $body).await;
        }
    };
}
pub(crate) use test_on_engines;

/// Runs a test body. The type of its argument selects the fixture.
pub async fn run_on<F: Fixture<Variant>, Variant>(
    backend: TestBackend,
    variant: Variant,
    body: impl AsyncFnOnce(F),
) {
    body(F::on(backend, variant).await).await;
}

pub fn user(id: &str) -> UserId {
    UserId::new(id).unwrap()
}

pub fn conversation(id: &str) -> ConversationId {
    ConversationId::new(id).unwrap()
}

/// A person with a token.
pub fn user_caller(id: &str) -> Caller {
    Caller {
        user: Some(user(id)),
        name: None,
        role: Role::User,
        anonymous: false,
        issued_at: Some(0),
        expires_at: u64::MAX,
        ip_address: None,
    }
}

/// An admin with a token.
pub fn admin_caller(id: &str) -> Caller {
    Caller {
        role: Role::Admin,
        ..user_caller(id)
    }
}

/// A service that has named no user.
pub fn service_caller() -> Caller {
    Caller {
        user: None,
        role: Role::Service,
        ..user_caller("x")
    }
}

/// Waits for a future, with a timeout.
pub async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    let timeout = Duration::from_secs(60);
    tokio::time::timeout(timeout, future).await.unwrap()
}

/// More polls than any cancelled call needs; the time that the store needs does not matter.
pub const MAX_POLLS: usize = 40;

/// Polls a call so many times and drops it. True if it completed.
pub async fn poll_times_then_drop<T>(after: usize, call: impl Future<Output = T>) -> bool {
    let mut call = pin!(call);
    for _ in 0..after {
        let done = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
        if done {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}
