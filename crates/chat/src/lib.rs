//! The capabilities of Parlor: the realtime state of a chat over a Redis-like store and a database.
//!
//! Each capability is a folder. Its `keys.rs` is the only place that spells its keys and channels; [`registry`] lists them all,
//! [`schema`] shows them to people and programs, [`keys::Keyspace`] builds and recognises them.

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
