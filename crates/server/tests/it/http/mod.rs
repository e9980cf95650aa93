//! HTTP as services and pages use it.

mod bodies;
mod callers;
mod client;
mod limits;
mod origins;
mod outage;
mod page;
mod presence;
mod reference;
mod rights;
mod schemathesis;
mod typing;
