//! What each command does, one file per data type. Arguments arrive with the name first and the right in number;
//! everything else a function checks itself, before it changes anything.

pub mod counts;
pub mod hashes;
pub mod keys;
pub mod lists;
pub mod pubsub;
pub mod random;
pub mod scan;
pub mod server;
pub mod sets;
pub mod strings;
pub mod zsets;
