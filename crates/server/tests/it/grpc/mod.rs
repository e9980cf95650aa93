//! gRPC as services use it.

mod calls;
pub mod client;
mod door;
mod limits;
mod outage;
mod parity;
mod python;
mod streams;
