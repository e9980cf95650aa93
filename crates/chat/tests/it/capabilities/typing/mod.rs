//! Typing: each test body runs with every layout on every engine.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what failed by failing"
)]

mod background_tasks;
mod cancelled_futures;
mod cluster_and_valkey;
mod concurrent;
mod fixture;
mod listening;
mod missed;
mod nodes;
mod outage;
mod random;
mod stored_keys;
mod throttle;

/// Runs each body as one test per layout and engine.
macro_rules! on_every_layout {
    ($($body:ident;)+) => { $(
        mod $body {
            crate::capabilities::typing::on_every_layout!(@ $body document Document: embedded redis);
            crate::capabilities::typing::on_every_layout!(@ $body flag Flag: embedded redis);
        }
    )+ };
    (@ $body:ident $name:ident $layout:ident: $($engine:ident)+) => {
        mod $name { $(
            #[tokio::test]
            async fn $engine() {
                let layout = parlor_chat::keys::TypingLayout::$layout;
                let world = crate::capabilities::typing::fixture::World::$engine(layout).await;
                super::super::$body(world).await;
            }
        )+ }
    };
}
use on_every_layout;
