//! The typing frame between nodes.
//!
//! Invariant: a receiver ignores a frame that it cannot decode.

use super::TypingUser;
use crate::bus::frame::{self, BusFrameKind};
use crate::clock::Timestamp;
use crate::ids::UserId;

/// Encodes the typing frame: 8 bytes end time in ms (0: stopped), 1 byte length of the user id, user id, display name.
pub(super) fn encode_typing_frame(user: &UserId, username: &str, ends_at: Timestamp) -> Vec<u8> {
    let id = user.as_str().as_bytes();
    let length = u8::try_from(id.len()).expect("an identifier has at most 128 bytes");
    let mut frame = frame::start_frame(BusFrameKind::Typing, 9 + id.len() + username.len());
    frame.extend(ends_at.as_millis().to_be_bytes());
    frame.push(length);
    frame.extend(id);
    frame.extend(username.as_bytes());
    frame
}

/// Decodes the body of a typing frame. `None` if it is malformed.
pub(crate) fn decode_typing_frame(body: &[u8]) -> Option<TypingUser> {
    let (ends_at, body) = body.split_first_chunk()?;
    let (length, body) = body.split_first()?;
    let (id, name) = body.split_at_checked(usize::from(*length))?;
    let name = str::from_utf8(name).ok()?;
    Some(TypingUser {
        user_id: UserId::new(str::from_utf8(id).ok()?).ok()?,
        username: (!name.is_empty()).then(|| name.to_owned()),
        until: Timestamp(u64::from_be_bytes(*ends_at)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::frame::BusFrame;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let longest = "u".repeat(128);
        for (id, name) in [("alice", ""), ("u1", "Ümit 🙂"), (longest.as_str(), "x")] {
            let user = UserId::new(id).expect("valid");
            let frame = encode_typing_frame(&user, name, Timestamp(1_700_000_000_123));
            let BusFrame::Known(BusFrameKind::Typing, body) = BusFrame::from(&frame[..]) else {
                unreachable!("the frame is a typing frame")
            };
            let typing_user = decode_typing_frame(body).expect("the frame is valid");
            assert_eq!(typing_user.user_id, user);
            assert_eq!(typing_user.username.as_deref().unwrap_or_default(), name);
            assert_eq!(typing_user.until, Timestamp(1_700_000_000_123));
            for cut in 0..9 + id.len() {
                assert_eq!(decode_typing_frame(&body[..cut]), None, "{cut}");
            }
        }
    }
}
