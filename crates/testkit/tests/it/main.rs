//! Tests that each kind of server starts, answers, does what its handle promises, and ends.

#![expect(clippy::unwrap_used, reason = "tests")]

mod cleanup;
mod cluster;
mod eventually;
mod postgres;
mod redis;
mod sentinel;
mod server_process;
mod time;
