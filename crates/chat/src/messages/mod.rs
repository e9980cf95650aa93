//! Messages.

pub mod keys;
pub mod writer;

mod message;
mod row;

pub use self::message::Message;
