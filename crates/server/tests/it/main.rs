//! The `parlor` binary as users run it, on real servers.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code: a panic that names the cause is its way to report an error"
)]

mod doctor;
mod keys;
mod lifecycle;
mod references;
mod schema;
mod serve;
mod settings;
mod support;
