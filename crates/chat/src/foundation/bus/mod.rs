//! The bus: frames that nodes publish to each other.

pub(crate) mod control;
pub mod frame;
pub mod keys;
