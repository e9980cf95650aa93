//! Tests of the real `parlor` binary, with real stores and databases.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code reports errors by panicking with the cause"
)]

mod cleanup;
mod client_kit;
mod client_libraries;
mod controlled_program;
mod doctor;
mod documentation;
mod documents;
mod examples;
mod generated;
mod grpc;
mod http;
mod keys;
mod lifecycle;
mod load;
mod migrate;
mod repair;
mod schema;
mod serve;
mod settings;
mod shared_sessions;
mod signals;
mod socketio;
mod support;
mod token;
mod tokens;
mod transfer;
