//! The Parlor server: configuration, command line, authentication, HTTP, gRPC, Socket.IO, and start and shutdown of the
//! process.

pub mod address;
pub mod app;
pub mod cli;
pub mod config;
pub mod descriptors;
pub mod gateway;
pub mod grpc;
pub mod http;
pub mod identity;
pub mod lifecycle;
pub mod logs;
pub mod outage;
pub mod quota;
pub mod readiness;
pub mod wire;
