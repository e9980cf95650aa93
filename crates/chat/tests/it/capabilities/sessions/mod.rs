//! Sessions. Each test runs on the embedded store with SQLite and on Redis with PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test says what failed by failing")]

mod begin;
mod cluster;
mod end;
mod end_notifications;
mod fixture;
mod retries;
mod store_data_loss;

/// Declares one test per store for each function.
macro_rules! on_every_engine {
    ($($body:ident;)+) => { $(
        mod $body {
            #[tokio::test]
            async fn embedded() {
                let world = crate::capabilities::sessions::fixture::World::embedded().await;
                super::$body(world).await;
            }
            #[tokio::test]
            async fn redis() {
                let world = crate::capabilities::sessions::fixture::World::redis().await;
                super::$body(world).await;
            }
        }
    )+ };
}
use on_every_engine;
