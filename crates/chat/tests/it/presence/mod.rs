//! Presence: each test body runs with every layout on every engine.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what failed by failing"
)]

mod concurrent;
mod crash;
mod devices;
mod dropped;
mod ended;
mod foreign;
mod grace;
mod leases;
mod others;
mod outage;
mod processes;
mod races;
mod random;
mod reads;
mod restart;
mod sentinel;
mod shown;
mod status;
mod ticking;
mod watch;
mod world;

/// Runs each body as one test per layout and engine.
macro_rules! on_every_layout {
    ($($body:ident;)+) => { $(
        mod $body {
            crate::presence::on_every_layout!(@ $body embedded: devices Devices, document Document, sockets Sockets, status Status);
            crate::presence::on_every_layout!(@ $body redis: devices Devices, document Document, sockets Sockets, status Status);
        }
    )+ };
    (@ $body:ident $engine:ident: $($name:ident $layout:ident),+) => {
        mod $engine { $(
            #[tokio::test]
            async fn $name() {
                let layout = parlor_chat::keys::PresenceLayout::$layout;
                let world = crate::presence::world::World::$engine(layout).await;
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
            crate::presence::on_every_engine!(@ $body embedded redis);
        }
    )+ };
    (@ $body:ident $($engine:ident)+) => { $(
        #[tokio::test]
        async fn $engine() {
            let layout = parlor_chat::keys::PresenceLayout::Devices;
            let world = crate::presence::world::World::$engine(layout).await;
            super::$body(world).await;
        }
    )+ };
}
use on_every_engine;
