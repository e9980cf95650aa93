//! The bus: frames between nodes.

pub mod keys;
