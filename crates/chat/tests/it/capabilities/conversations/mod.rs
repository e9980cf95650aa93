//! Conversations and membership: each test body runs on the embedded engine with SQLite and on Redis with PostgreSQL,
//! some also on a Redis Cluster with PostgreSQL.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a panic reports the failure of a test"
)]

mod caches;
mod cluster;
mod deletion;
mod fixture;
mod list;
mod locking;
mod other_services;
mod outage;
mod published_frames;
mod races;
mod random;
mod rules;

use crate::support::on_every_engine;
