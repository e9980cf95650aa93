//! An in-process Redis for Rust.
//!
//! [`EmbeddedEngine`] stores strings, hashes, lists, sets and sorted sets with expiry, publishes and subscribes, runs
//! transactions and Lua scripts, and flushes changes to one SQLite file once per flush interval. [`EmbeddedConnection`]
//! implements the redis crate's [`ConnectionLike`](redis::aio::ConnectionLike), so code written for Redis runs on it
//! unchanged. Redis 7 defines every reply, and tests compare the engine with a real Redis server.
//!
//! Two kinds of data are not on disk after a restart: volatile updates
//! ([`EmbeddedConnection::with_volatile_updates`]), which leave an older value and deadline there, and memory-only lists
//! ([`native::NativeScriptCall::set_memory_only`]), which are lost.
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

mod clock;
mod commands;
mod db;
mod engine;
mod error;
mod event_queue;
mod glob;
mod hash_slot;
mod numbers;
mod persistence;
mod pubsub;
mod scripting;
mod values;

pub use clock::{Clock, ManualClock, SystemClock};
pub use commands::table::{CommandEffect, CommandSpec, find_command};
pub use engine::connection::EmbeddedConnection;
pub use engine::{EmbeddedEngine, EngineOptions, FlushError};
pub use error::EngineOpenError;
pub use event_queue::EventQueue;
pub use hash_slot::key_hash_slot;
pub use persistence::DataFolderLock;
pub use pubsub::{ChannelLookup, EmbeddedSubscriber, PubSubEvent, SubscriptionKind};
pub use scripting::native;
