//! Tests of the wire protocols: frames and packets alone, then a server over TCP.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code reports by panicking"
)]

mod clients;
mod delivery;
#[path = "../../examples/protocol_echo/echo.rs"]
mod echo;
mod engine_protocol;
mod frames;
mod fuzz_smoke;
mod limits;
mod packets;
mod recording_server;
mod recovery;
mod rfc6455;
mod socket_protocol;
mod timers;
mod upgrade;
mod upgrade_under_load;
