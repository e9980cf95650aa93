//! Messages.

pub mod keys;

mod message;

pub use self::message::Message;
