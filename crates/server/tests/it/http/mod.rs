//! HTTP as services and pages use it.

mod bodies;
pub mod callers;
mod chat;
pub mod client;
mod limits;
mod origins;
mod outage;
mod page;
mod presence;
mod quota;
mod reference;
mod rights;
mod schemathesis;
mod sessions;
mod typing;
