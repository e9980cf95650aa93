//! One folder per capability.

mod conversations;
mod limits;
mod live;
mod messages;
mod presence;
mod sessions;
mod typing;
mod unread;
