//! An in-process Redis for Rust.
//!
//! [`Engine`] keeps strings, hashes, lists, sets and sorted sets with expiry, publishes and subscribes, runs
//! transactions and Lua scripts, and writes what changed to disk once per tick. [`Connection`] implements the redis
//! crate's [`ConnectionLike`](redis::aio::ConnectionLike), so that code written against Redis runs on it unchanged:
//! Redis 7 is the definition of every reply, and tests compare the two.
//!
//! Calls run inline on the caller's thread under one short lock. There is no thread hop and no copy that Redis's own
//! types do not ask for.

mod args;
mod background;
mod clock;
mod commands;
mod connection;
mod control;
mod core;
mod db;
mod edit;
mod engine;
mod error;
mod free;
mod gate;
mod glob;
mod journal;
mod keyspace;
pub mod native;
mod number;
mod persist;
mod pubsub;
mod reply;
mod script;
mod slot;
mod table;
mod value;

pub use clock::{Clock, ManualClock, SystemClock};
pub use connection::EmbeddedConnection;
pub use engine::{Engine, EngineOptions, FlushError};
pub use error::EngineOpenError;
pub use persist::DataFolderLock;
pub use pubsub::{ChannelLookup, EmbeddedSubscriber, PubSubEvent};
pub use slot::slot;
