//! Sessions: who may speak to us, from where and as what.

pub mod keys;
