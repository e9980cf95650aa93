//! Integration tests of the store with real servers: one contract on every backend, and failures of servers.

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
mod growth;
mod open;
mod outage;
