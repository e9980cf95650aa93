//! Uploads: files that were announced and have not arrived.

pub mod keys;
