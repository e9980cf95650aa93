//! Search: pages of results, kept for a moment.

pub mod keys;
