//! The chat capabilities of Parlor: the realtime state of a chat in a Redis-compatible store and an SQL database.
//!
//! - [`api`]: how the capabilities are called (operations, callers, errors).
//! - [`capabilities`]: what Parlor does, one folder per capability.
//! - [`foundation`]: what the capabilities stand on (database, keys, bus, nodes, clock).
//! - [`transfer`]: import and export of the rows as JSON lines.
//!
//! The `keys.rs` of a capability is the only place that contains the names of its keys and channels. [`keys::registry`]
//! lists all declarations, [`keys::reference`] generates their documentation, and [`keys::Keyspace`] builds and
//! recognises names.

pub mod api;
pub mod capabilities;
pub mod foundation;
pub mod transfer;

mod chat;
mod options;

pub use chat::Chat;
pub use foundation::background::BackgroundTasks;
pub use options::{ChatOptions, MessageOptions, SessionOptions};

// Short paths: `parlor_chat::presence::Presence`, `parlor_chat::keys::Keyspace`.
pub use capabilities::{conversations, limits, live, messages, presence, sessions, typing, unread};
#[cfg(test)]
pub(crate) use foundation::script_parity;
pub(crate) use foundation::{background, request_batcher, single_flight, store_binding, throttle};
pub use foundation::{bus, clock, context, database, failpoint, ids, keys, nodes, outbox};
