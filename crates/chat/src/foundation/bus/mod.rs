//! The bus: frames that nodes publish to each other.

pub mod frame;
pub mod keys;
