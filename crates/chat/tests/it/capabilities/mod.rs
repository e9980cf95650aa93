//! One folder per capability.

mod conversations;
mod limits;
mod live;
pub mod messages;
mod presence;
mod sessions;
mod typing;
mod unread;
