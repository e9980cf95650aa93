//! gRPC as services use it.

mod calls;
mod client;
mod door;
mod outage;
mod parity;
mod python;
mod streams;
