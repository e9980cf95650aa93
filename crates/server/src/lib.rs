//! The Parlor server: configuration, command line, authentication, HTTP, gRPC, Socket.IO, and start and shutdown of the
//! process.

pub mod api_error;
pub mod app_state;
pub mod auth;
pub mod cli;
mod client_address;
pub mod config;
mod database_breaker;
pub mod grpc;
pub mod http;
pub mod lifecycle;
mod logging;
mod open_files;
mod rate_limit;
mod readiness;
pub mod socketio;
