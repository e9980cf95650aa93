//! The capabilities of Parlor: one folder each.

pub mod conversations;
pub mod limits;
pub mod live;
pub mod messages;
pub mod presence;
pub mod sessions;
pub mod typing;
pub mod unread;
