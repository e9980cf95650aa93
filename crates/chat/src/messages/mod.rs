//! Messages: the newest ones at hand, and the word to other services that there is one.

pub mod keys;
