//! Rate limits: each test body runs on every engine.

#![expect(clippy::unwrap_used, reason = "a test says what failed by failing")]

mod cluster_and_valkey;
mod concurrent;
mod fixed;
mod fixture;
mod gcra;
mod local_limiter;
mod messages;
mod outage;
mod random;
mod retried_requests;
mod sliding;
mod stored_keys;
mod wrong_key_types;

use crate::support::on_every_engine;
