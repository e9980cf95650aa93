//! The bus: frames between nodes.

pub mod frame;
pub mod keys;
