//! What the capabilities stand on.

mod database;
mod ids;
mod keys;
