//! Sessions. Each test runs on the embedded store with SQLite and on Redis with PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test says what failed by failing")]

mod begin;
mod cluster;
mod end;
mod end_notifications;
mod fixture;
mod other_services;
mod retries;
mod store_data_loss;

use crate::support::on_every_engine;
