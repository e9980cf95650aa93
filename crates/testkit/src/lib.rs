//! Real servers for tests, each on free ports of 127.0.0.1 and in a temporary folder of its own.
//!
//! Always true:
//! 1. A server ends when its handle is dropped, so also when the test panics; and when the test process
//!    ends in any other way (`kill -9`, a runner's time-out, a handle in a `static`) the watchdog ends it.
//! 2. A started server answers: `start` returns only after the server itself said that it is ready.
//! 3. A port that somebody else took in the meantime leads to another try, not to a failed test.
//! 4. A server that is not installed, or does not come up, is a panic that says why and shows the log.
//!
//! Handles hold no connection and no task, so one may be kept in a `static` and used from many runtimes.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code reports errors by panicking with the cause"
)]

mod binary;
mod certificates;
mod cluster;
mod eventually;
mod listening;
mod node;
mod ports;
mod postgres;
mod process;
mod redis_options;
mod redis_server;
mod sentinel;
mod socket_client;
mod time;
mod watchdog;

pub use cluster::{Cluster, RedisClusterOptions};
pub use eventually::{ConditionResult, eventually, eventually_within};
pub use node::{Node, ServerProcessOptions};
pub use postgres::Postgres;
pub use process::is_running;
pub use redis_options::RedisOptions;
pub use redis_server::{Redis, Valkey, connect};
pub use sentinel::{SentinelSet, SentinelSetOptions};
pub use socket_client::{SocketIoClientError, SocketIoTestClient};
pub use time::advance;
