//! Jobs: periodic work that one node does for all.

pub mod keys;
