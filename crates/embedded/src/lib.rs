//! An in-process Redis for Rust.
//!
//! [`EmbeddedEngine`] stores strings, hashes, lists, sets and sorted sets with expiry, publishes and subscribes, runs
//! transactions and Lua scripts, and flushes changes to one SQLite file once per flush interval. [`EmbeddedConnection`]
//! implements the redis crate's [`ConnectionLike`](redis::aio::ConnectionLike), so code written for Redis runs on it
//! unchanged. Redis 7 defines every reply, and tests compare the engine with a real Redis server.
//!
//! Commands run inline on the caller's thread under one mutex. The engine needs no thread hop, and it copies data only
//! where the redis crate's types require a copy.
//!
//! ```text
//! EmbeddedConnection --> EngineState (one mutex) --> commands, scripting --> Db --> values
//!                                                                            |
//!                                                                            +--> journal
//! background thread: expire cycle, flush of the journal --> persistence --> store.db
//! ```

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
