//! Tests of messages: one body for each behaviour, run on both databases and both kinds of store.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test reports the cause by its panic"
)]

mod cluster;
mod concurrency;
mod database_timeout;
mod documented_keys;
mod edit;
pub mod fixture;
mod history;
mod outage;
mod random;
mod recovery;
mod send;
mod writer;
mod wrong_key_types;

/// Runs each body as one test per backend; on the embedded store also with the other layout of the recent list.
macro_rules! test_on_all_backends {
    ($($body:ident;)+) => { $(
        mod $body {
            use parlor_chat::keys::RecentLayout;
            use crate::capabilities::messages::fixture::World;

            #[tokio::test]
            async fn embedded() {
                super::$body(World::embedded(RecentLayout::Messages).await).await;
            }

            #[tokio::test]
            async fn embedded_conversation() {
                super::$body(World::embedded(RecentLayout::Conversation).await).await;
            }

            #[tokio::test]
            async fn redis() {
                super::$body(World::redis(RecentLayout::Messages).await).await;
            }
        }
    )+ };
}
use test_on_all_backends;
