//! Parlor's server: configuration, the command line, identity, HTTP and the life of the process.

pub mod cli;
pub mod config;
pub mod http;
pub mod identity;
pub mod lifecycle;
pub mod logs;
