//! Places: where users are, for finding those nearby.

pub mod keys;
