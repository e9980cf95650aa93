//! Tests of the message writer: one body for each behaviour, run on both databases.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test reports the cause by its panic"
)]

mod batching;
mod client_id;
mod crash;
mod fixture;
mod nodes;
mod positions;
mod refused;
mod shutdown;

/// Runs each body as one test per database.
macro_rules! on_both {
    ($($body:ident;)+) => { $(
        mod $body {
            #[tokio::test]
            async fn sqlite() {
                super::$body(super::World::sqlite().await).await;
            }

            #[tokio::test]
            async fn postgres() {
                super::$body(super::World::postgres().await).await;
            }
        }
    )+ };
}
use on_both;
