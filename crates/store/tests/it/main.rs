//! The store against real servers: one contract on every engine, and what happens when servers fail.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code reports by panicking"
)]

mod bus;
mod contract;
mod embedded;
mod failover;
mod fixture;
mod outage;
mod servers;
