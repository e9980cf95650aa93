//! How the capabilities are called.

mod authorization;
