//! What Parlor does: one folder per capability.

pub mod blocks;
pub mod conversations;
pub mod delivery;
pub mod desk;
pub mod jobs;
pub mod limits;
pub mod live;
pub mod membership;
pub mod messages;
pub mod places;
pub mod presence;
pub mod search;
pub mod sessions;
pub mod stats;
pub mod typing;
pub mod unread;
pub mod uploads;
