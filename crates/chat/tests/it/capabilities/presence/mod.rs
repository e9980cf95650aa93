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
mod outage;
mod random;
mod reads;
mod removed_devices;
mod restart;
mod script_interleaving;
mod sentinel;
mod status;
mod watch;
mod wrong_key_types;

/// Runs each body as one test per layout and engine.
macro_rules! on_every_layout {
    ($($body:ident;)+) => { $(
        mod $body {
            crate::capabilities::presence::on_every_layout!(@ $body embedded: devices Devices, document Document, sockets Sockets, status Status);
            crate::capabilities::presence::on_every_layout!(@ $body redis: devices Devices, document Document, sockets Sockets, status Status);
        }
    )+ };
    (@ $body:ident $engine:ident: $($name:ident $layout:ident),+) => {
        mod $engine { $(
            #[tokio::test]
            async fn $name() {
                let layout = parlor_chat::keys::PresenceLayout::$layout;
                let world = crate::capabilities::presence::fixture::World::$engine(layout).await;
                super::super::$body(world).await;
            }
        )+ }
    };
}
use on_every_layout;

/// Runs each body as one test per engine, with the default layout.
macro_rules! on_every_engine {
    ($($body:ident;)+) => { $(
        mod $body {
            crate::capabilities::presence::on_every_engine!(@ $body embedded redis);
        }
    )+ };
    (@ $body:ident $($engine:ident)+) => { $(
        #[tokio::test]
        async fn $engine() {
            let layout = parlor_chat::keys::PresenceLayout::Devices;
            let world = crate::capabilities::presence::fixture::World::$engine(layout).await;
            super::$body(world).await;
        }
    )+ };
}
use on_every_engine;
