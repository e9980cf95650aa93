//! The commands, one file per data type.
//!
//! Invariants:
//! 1. A command function receives its arguments with the name first, and [`table`] has checked their number.
//! 2. It validates everything else before it changes anything.
//! 3. Its replies and error texts are those of Redis 7.0.15, which the oracle test compares.

pub mod args;
pub mod count_args;
pub mod hashes;
pub mod keys;
pub mod lists;
pub mod pubsub;
pub mod random_pick;
pub mod reply;
pub mod scan_args;
pub mod server;
pub mod sets;
pub mod strings;
pub mod table;
pub mod zsets;
