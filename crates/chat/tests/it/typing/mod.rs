//! Typing: each test body runs with every layout on every engine.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what failed by failing"
)]

mod concurrent;
mod given_up;
mod listening;
mod missed;
mod nodes;
mod others;
mod outage;
mod random;
mod stored;
mod throttle;
mod ticking;
mod world;

/// Runs each body as one test per layout and engine.
macro_rules! on_every_layout {
    ($($body:ident;)+) => { $(
        mod $body {
            crate::typing::on_every_layout!(@ $body document Document: embedded redis);
            crate::typing::on_every_layout!(@ $body flag Flag: embedded redis);
        }
    )+ };
    (@ $body:ident $name:ident $layout:ident: $($engine:ident)+) => {
        mod $name { $(
            #[tokio::test]
            async fn $engine() {
                let layout = parlor_chat::keys::TypingLayout::$layout;
                let world = crate::typing::world::World::$engine(layout).await;
                super::super::$body(world).await;
            }
        )+ }
    };
}
use on_every_layout;
