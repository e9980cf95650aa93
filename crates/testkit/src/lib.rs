//! Real servers for tests, each on free ports of 127.0.0.1 and in its own temporary folder. Also a Socket.IO test
//! client, faults of the disk, waiting for a condition, and moving time.
//!
//! Invariants:
//! 1. A server ends when its handle is dropped, also if the test panics. If the test process ends in another way (`kill
//!    -9`, a timeout of the test runner, a handle in a `static`), the watchdog ends the server.
//! 2. `start` returns only after the server has reported that it is ready.
//! 3. If another process takes a chosen port first, the start is retried with another port.
//! 4. A function panics if a server is not installed, does not start, or does not do in time what the function promises.
//!    The message contains the reason and the log.
//!
//! Handles hold no connection and no task, so a handle may be kept in a `static` and used from several runtimes.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code reports errors by panicking with the cause"
)]

mod advance_time;
mod certificates;
mod disk_faults;
mod eventually;
mod free_port;
mod http_connection;
mod listening_port;
mod postgres;
mod proc_stat;
mod programs;
mod redis_cluster;
mod redis_options;
mod redis_sentinel;
mod redis_server;
mod server_process;
mod socket_io_client;
mod watchdog;
mod watched_process;
mod websocket_frame;

pub use advance_time::advance_time;
pub use disk_faults::{DiskFault, DiskFaults, InjectedDiskFault};
pub use eventually::{ConditionResult, eventually, eventually_within};
pub use http_connection::{HttpConnection, HttpResponse};
pub use postgres::Postgres;
pub use proc_stat::child_pids;
pub use redis_cluster::{RedisCluster, RedisClusterOptions};
pub use redis_options::RedisOptions;
pub use redis_sentinel::{SentinelSet, SentinelSetOptions};
pub use redis_server::{Redis, Valkey, connect_with_test_timeout};
pub use server_process::{ServerProcess, ServerProcessOptions};
pub use socket_io_client::{SocketIoClientError, SocketIoTestClient};
pub use watched_process::is_running;
pub use websocket_frame::{decode_server_frame, encode_client_frame};
