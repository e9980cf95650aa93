//! Limits: how often something may be done.

pub mod keys;
