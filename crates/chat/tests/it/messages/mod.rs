//! Messages.

mod writer;
