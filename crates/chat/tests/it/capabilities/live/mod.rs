//! Live feeds: each test body runs on both databases and both kinds of store.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a panic reports the failure of a test"
)]

mod catch_up;
mod cluster;
mod conversation_events;
mod fixture;
mod large_conversations;
mod members;
mod outage;
mod resync;
mod typing;
mod user_events;

/// Declares one test per body and engine.
macro_rules! on_every_engine {
    ($($body:ident;)+) => { $(
        mod $body {
            use crate::capabilities::live::fixture::World;

            #[tokio::test]
            async fn embedded() {
                super::$body(World::embedded().await).await;
            }

            #[tokio::test]
            async fn redis() {
                super::$body(World::redis().await).await;
            }
        }
    )+ };
}
use on_every_engine;
