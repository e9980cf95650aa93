//! Rate limits: each test body runs on every engine.

#![expect(clippy::unwrap_used, reason = "a test says what failed by failing")]

mod cluster_and_valkey;
mod concurrent;
mod fixed;
mod fixture;
mod gcra;
mod local_limiter;
mod messages;
mod outage;
mod random;
mod retried_requests;
mod sliding;
mod stored_keys;
mod wrong_key_types;

/// Runs each body as one test per engine.
macro_rules! on_every_engine {
    ($($body:ident;)+) => { $(
        mod $body {
            crate::capabilities::limits::on_every_engine!(@ $body embedded redis);
        }
    )+ };
    (@ $body:ident $($engine:ident)+) => { $(
        #[tokio::test]
        async fn $engine() {
            super::$body(crate::capabilities::limits::fixture::World::$engine().await).await;
        }
    )+ };
}
use on_every_engine;
