//! Tests of the gRPC gateway.

mod calls;
mod chat;
pub mod client;
mod limits;
mod outage;
mod parity;
mod python;
mod streams;
mod timeouts;
