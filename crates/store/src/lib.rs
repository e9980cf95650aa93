//! The store: what the rest of Parlor sees of Redis, Valkey or the embedded engine.
//!
//! [`Store`] takes the redis crate's commands, pipelines and scripts (it implements
//! [`ConnectionLike`](::redis::aio::ConnectionLike)) and adds what a server needs around them: time-outs, safe repeats,
//! a circuit breaker, reconnects for ever, Sentinel and Cluster failovers, scripts that are loaded on demand. [`Bus`]
//! publishes and subscribes. [`Clock`] is the store's time, and [`Store::epoch`] tells when its data may be stale.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use redis::AsyncTypedCommands;
//!
//! let url = "redis://localhost:6379/0".parse()?;
//! let mut store = parlor_store::Store::open(parlor_store::Options::new(url)).await?;
//! store.set("greeting", "hello").await?;
//! # Ok(())
//! # }
//! ```

mod bus;
mod clock;
mod embedded;
mod epoch;
mod fault;
mod options;
mod redis;
mod scan;
mod script;
mod shared;
mod store;
mod tasks;
mod telemetry;
mod url;

pub use bus::{Bus, BusEvent, BusListener, BusListenerGuard, BusSubscription, ChannelName};
pub use clock::StoreClock;
pub use fault::{Fault, fault};
pub use options::{StoreOpenError, StoreOptions};
pub use parlor_embedded::{ManualClock, native};
pub use scan::KeyScan;
pub use script::{LuaScript, ScriptCall};
pub use shared::StoreState;
pub use store::{Store, StoreKind};
pub use url::{ServerAddress, StoreCredentials, StoreTls, StoreUrl, StoreUrlError};
