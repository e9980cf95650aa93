//! Frames of status changes, which the scripts publish to watchers.

use crate::ids::UserId;
use crate::presence::model::{PresenceStatus, UserStatus};

/// Version byte of a frame.
const CHANGE_FRAME_VERSION: u8 = 1;

/// Decodes `status version last_seen user` after the version byte.
pub(super) fn decode_status_change(payload: &[u8]) -> Option<UserStatus> {
    let (&CHANGE_FRAME_VERSION, text) = payload.split_first()? else {
        return None;
    };
    let mut words = std::str::from_utf8(text).ok()?.splitn(4, ' ');
    let status = PresenceStatus::parse(words.next()?)?;
    let version = words.next()?.parse().ok()?;
    let seen = words.next()?;
    Some(UserStatus {
        user_id: UserId::new(words.next()?).ok()?,
        status,
        last_seen: (seen != "-").then(|| seen.to_owned()),
        version,
        degraded: false,
        external: false,
    })
}
