//! Tests of the HTTP gateway.

mod bodies;
mod chat;
pub mod client;
pub mod conversations;
mod docs_page;
mod limits;
mod messages;
mod openapi;
mod origins;
mod outage;
mod permissions;
mod presence;
mod rate_limit;
mod schemathesis;
mod sessions;
mod several_nodes;
mod typing;
mod unread;
