//! Blocked users: whom a user does not want to hear from.

pub mod keys;
