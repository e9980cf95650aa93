//! The chat capabilities of Parlor: the realtime state of a chat in a Redis-compatible store and an SQL database.
//!
//! - `api`: how the capabilities are called (operations, callers, errors).
//! - `capabilities`: what Parlor does, one folder per capability.
//! - `foundation`: what the capabilities stand on (database, keys, bus, nodes, clock).
//!
//! The `keys.rs` of a capability is the only place that contains the names of its keys and channels. `keys::registry`
//! lists all declarations, `keys::reference` generates their documentation, and [`keys::Keyspace`] builds and
//! recognises names.

pub mod access;
pub mod chat;
pub mod code;
pub mod context;
pub mod database;
pub mod error;
pub mod ids;
pub mod keys;
pub mod operation;
pub mod options;
mod owed;
mod ownership;
mod paced;
pub mod registry;
pub mod schema;
mod ticking;
#[cfg(test)]
mod twins;

pub mod blocks;
pub mod bus;
pub mod conversations;
pub mod delivery;
pub mod desk;
pub mod jobs;
pub mod limits;
pub mod live;
pub mod membership;
pub mod messages;
pub mod nodes;
pub mod places;
pub mod presence;
pub mod search;
pub mod sessions;
pub mod stats;
pub mod typing;
pub mod unread;
pub mod uploads;
