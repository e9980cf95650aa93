//! Membership: who belongs to a conversation, answered from a cache over the rows.

pub mod keys;

mod members;

pub use self::members::{Members, Nobody};
