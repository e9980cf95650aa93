//! Sessions. Each test runs on the embedded store with SQLite and on Redis with PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test says what failed by failing")]

mod attached;
mod begun;
mod ended;
mod lost;
mod mended;
mod others;
mod world;

/// Declares one test per store for each function.
macro_rules! on_every_engine {
    ($($body:ident;)+) => { $(
        mod $body {
            #[tokio::test]
            async fn embedded() {
                let world = crate::sessions::world::World::embedded().await;
                super::$body(world).await;
            }
            #[tokio::test]
            async fn redis() {
                let world = crate::sessions::world::World::redis().await;
                super::$body(world).await;
            }
        }
    )+ };
}
use on_every_engine;
