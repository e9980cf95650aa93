//! Tests of messages: one body for each behaviour, run on both databases and both kinds of store.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test reports the cause by its panic"
)]

mod behind;
mod changes;
mod cluster;
mod foreign;
mod locked;
mod order;
mod outage;
mod paging;
mod random;
mod rules;
mod stored;
pub mod world;
mod writer;

/// Runs each body as one test per backend; on the embedded store also with the other layout of the recent list.
macro_rules! test_on_all_backends {
    ($($body:ident;)+) => { $(
        mod $body {
            use parlor_chat::keys::RecentLayout;
            use crate::messages::world::World;

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
