//! Delivery: how far messages reached a user.

pub mod keys;
