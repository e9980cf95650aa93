//! Tests of the real `parlor` binary, with real stores and databases.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code reports errors by panicking with the cause"
)]

mod clients;
mod doctor;
mod examples;
mod gateway;
mod generated;
mod grpc;
mod http;
mod keys;
mod kit;
mod lifecycle;
mod load;
mod migrate;
mod repair;
mod schema;
mod serve;
mod settings;
mod support;
mod token;
