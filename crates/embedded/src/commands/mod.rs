//! The commands, one file per data type. A command function receives its arguments with the name first and a checked
//! argument count. It validates everything else before it changes anything.

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
