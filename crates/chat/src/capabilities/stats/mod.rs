//! Metrics: requests, errors and connections over all nodes.

pub mod keys;
