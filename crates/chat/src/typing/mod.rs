//! Typing: who is writing in a conversation at this moment.

pub mod keys;
