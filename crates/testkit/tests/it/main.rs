//! Tests that each kind of server starts, answers, does what its handle promises, and ends.

#![expect(clippy::unwrap_used, reason = "tests")]

mod cluster;
mod ending;
mod node;
mod postgres;
mod redis;
mod sentinel;
mod time;
mod waiting;
