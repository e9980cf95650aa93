//! Tests of the wire protocols: frames and packets alone, then a server over TCP.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code reports by panicking"
)]

mod bounds;
mod client;
#[path = "../../examples/protocol_echo/echo.rs"]
mod echo;
mod engine_protocol;
mod frames;
mod fuzz;
mod handover;
mod packets;
mod raw;
mod recovery;
mod rfc6455;
mod socket_protocol;
mod timers;
mod transport;
mod upgrade;
