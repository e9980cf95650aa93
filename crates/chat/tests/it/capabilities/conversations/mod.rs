//! Conversations and membership: each test body runs on the embedded engine with SQLite and on Redis with PostgreSQL,
//! some also on a Redis Cluster with PostgreSQL.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a panic reports the failure of a test"
)]

mod caches;
mod cluster;
mod fixture;
mod list;
mod locking;
mod outage;
mod published_frames;
mod races;
mod random;
mod rules;

/// Declares one test per body and engine.
macro_rules! on_every_engine {
    ($($body:ident;)+) => { $(
        mod $body {
            #[tokio::test]
            async fn embedded() {
                super::$body(crate::capabilities::conversations::fixture::World::embedded().await).await;
            }

            #[tokio::test]
            async fn redis() {
                super::$body(crate::capabilities::conversations::fixture::World::redis().await).await;
            }
        }
    )+ };
}
use on_every_engine;
