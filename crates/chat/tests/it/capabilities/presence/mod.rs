//! Presence: each test body runs with every layout on every engine.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what failed by failing"
)]

mod background_tasks;
mod cancelled_futures;
mod cluster_and_valkey;
mod concurrent;
mod crash;
mod devices;
mod expected_keys;
mod fixture;
mod grace;
mod leases;
mod node_crash;
mod other_services;
mod outage;
mod random;
mod reads;
mod removed_devices;
mod restart;
mod script_interleaving;
mod sentinel;
mod shared_strings;
mod status;
mod watch;
mod wrong_key_types;

use crate::support::on_every_engine;

/// Declares one test per body, layout and engine.
macro_rules! on_every_layout {
    ($($body:ident;)+) => { $(
        mod $body {
            crate::capabilities::presence::on_every_layout!(
                @ $body devices Devices, document Document, sockets Sockets, status Status
            );
        }
    )+ };
    (@ $body:ident $($name:ident $layout:ident),+) => { $(
        mod $name {
            crate::support::test_on_engines!(
                super::super::$body, parlor_chat::keys::PresenceLayout::$layout
            );
        }
    )+ };
}
use on_every_layout;
