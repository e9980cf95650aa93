//! Typing events of live feeds: each test body runs with every layout on every engine.

mod background;
mod cancelled_futures;
mod cluster_and_valkey;
mod concurrent;
mod events;
mod fixture;
mod nodes;
mod outage;
mod random;
mod subscriptions;

/// Declares one test per body, layout and engine.
macro_rules! on_every_layout {
    ($($body:ident;)+) => { $(
        mod $body {
            crate::capabilities::live::typing::on_every_layout!(
                @ $body document Document, flag Flag
            );
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
