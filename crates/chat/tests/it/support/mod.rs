//! What several test folders share.

pub mod backend;
