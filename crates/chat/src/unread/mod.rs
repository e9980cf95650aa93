//! Unread: how many messages wait for a user, per conversation and in all.

pub mod keys;
