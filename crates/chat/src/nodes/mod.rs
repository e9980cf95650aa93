//! Nodes: which Parlors run, and what the store knows about itself.

pub mod keys;
