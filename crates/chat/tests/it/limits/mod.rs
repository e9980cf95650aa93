//! Rate limits: each test body runs on every engine.

#![expect(clippy::unwrap_used, reason = "a test says what failed by failing")]

mod concurrent;
mod fallback;
mod fixed;
mod foreign;
mod gcra;
mod messages;
mod others;
mod outage;
mod random;
mod repeated;
mod sliding;
mod stored;
mod world;

/// Runs each body as one test per engine.
macro_rules! on_every_engine {
    ($($body:ident;)+) => { $(
        mod $body {
            crate::limits::on_every_engine!(@ $body embedded redis);
        }
    )+ };
    (@ $body:ident $($engine:ident)+) => { $(
        #[tokio::test]
        async fn $engine() {
            super::$body(crate::limits::world::World::$engine().await).await;
        }
    )+ };
}
use on_every_engine;
