//! Typing: each test body runs with every layout on every engine.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what failed by failing"
)]

mod cancelled_futures;
mod cluster_and_valkey;
mod fixture;
mod outage;
mod random;
mod stored_keys;
mod throttle;

/// Declares one test per body, layout and engine.
macro_rules! on_every_layout {
    ($($body:ident;)+) => { $(
        mod $body {
            crate::capabilities::typing::on_every_layout!(@ $body document Document, flag Flag);
        }
    )+ };
    (@ $body:ident $($name:ident $layout:ident),+) => { $(
        mod $name {
            crate::support::test_on_engines!(
                super::super::$body, parlor_chat::keys::TypingLayout::$layout
            );
        }
    )+ };
}
use on_every_layout;
