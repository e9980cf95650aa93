//! Tests of the HTTP gateway.

mod bodies;
pub mod callers;
mod chat;
pub mod client;
pub mod conversations;
mod limits;
mod messages;
mod origins;
mod outage;
mod page;
mod presence;
mod quota;
mod reference;
mod rights;
mod schemathesis;
mod servers;
mod sessions;
mod typing;
mod unread;
