//! The store: the interface to Redis, Valkey or the embedded engine that the rest of Parlor uses.
//!
//! [`Store`] accepts the redis crate's commands, pipelines and scripts (it implements
//! [`ConnectionLike`](redis::aio::ConnectionLike)). It adds timeouts, safe retries, a circuit breaker, endless
//! reconnects, Sentinel and Cluster failovers, and scripts that are loaded on demand. [`Bus`] publishes and subscribes.
//! [`StoreClock`] shows the server's time, and [`Store::epoch`] rises when the store's data may be stale.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use redis::AsyncTypedCommands;
//!
//! let url = "redis://localhost:6379/0".parse()?;
//! let mut store = parlor_store::Store::open(parlor_store::StoreOptions::new(url)).await?;
//! store.set("greeting", "hello").await?;
//! # Ok(())
//! # }
//! ```

mod bus;
mod clock;
mod embedded_backend;
mod epoch;
mod error_class;
mod full_servers;
mod health;
mod key_scan;
mod options;
mod redis_backend;
mod script;
mod store;
mod task_group;
mod telemetry;
mod url;

pub use bus::{Bus, BusEvent, BusListener, BusListenerGuard, BusSubscription, ChannelName};
pub use clock::StoreClock;
pub use error_class::{StoreErrorClass, classify_error};
pub use health::StoreState;
pub use key_scan::KeyScan;
pub use options::{StoreOpenError, StoreOptions};
pub use parlor_embedded::{ManualClock, native};
pub use script::{LuaScript, ScriptCall};
pub use store::{Store, StoreKind};
pub use url::{ServerAddress, StoreCredentials, StoreTls, StoreUrl, StoreUrlError};
