//! Parlor's server: configuration, the command line, HTTP and the life of the process.

pub mod cli;
pub mod config;
pub mod http;
pub mod lifecycle;
pub mod logs;
