//! Unread counts: each test body runs on the embedded engine with SQLite and on Redis with PostgreSQL.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a panic reports the failure of a test"
)]

mod cluster;
mod concurrent;
mod counting;
mod fixture;
mod random;
mod receipts;
mod reconcile;
mod repair;

/// Declares one test per body and engine.
macro_rules! on_both {
    ($($body:ident;)+) => { $(
        mod $body {
            #[tokio::test]
            async fn embedded() {
                super::$body(crate::capabilities::unread::fixture::World::embedded().await).await;
            }

            #[tokio::test]
            async fn redis() {
                super::$body(crate::capabilities::unread::fixture::World::redis().await).await;
            }
        }
    )+ };
}
use on_both;
