//! What Parlor does: one folder per capability.

pub mod conversations;
pub mod delivery;
pub mod limits;
pub mod live;
pub mod membership;
pub mod messages;
pub mod presence;
pub mod sessions;
pub mod typing;
pub mod unread;
