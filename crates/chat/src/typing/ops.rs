//! What typing tells: who types, and that it changed. And how nodes tell each other.

use serde::Serialize;
use utoipa::ToSchema;

use crate::bus::frame::{self, BusFrameKind};
use crate::context::Timestamp;
use crate::ids::{ConversationId, UserId};

/// Somebody who types in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TypingUser {
    /// Who.
    pub user_id: UserId,
    /// What they are called, if they have a name.
    pub username: Option<String>,
    /// When it ends unless they go on.
    #[serde(skip)]
    pub until: Timestamp,
}

/// Somebody types in a conversation, still does, or no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TypingChange {
    /// Where.
    pub conversation_id: ConversationId,
    /// Who.
    pub user_id: UserId,
    /// What they are called, if they have a name.
    pub username: Option<String>,
    /// Whether they type.
    pub typing: bool,
}

/// The frame that says until when somebody types: 8 bytes of time (zero: no longer), one of the id's length, id, name.
pub(super) fn encode_typing_frame(user: &UserId, username: &str, until: Timestamp) -> Vec<u8> {
    let id = user.as_str().as_bytes();
    let length = u8::try_from(id.len()).expect("an identifier has at most 128 bytes");
    let mut frame = frame::head(BusFrameKind::Typing, 9 + id.len() + username.len());
    frame.extend(until.as_millis().to_be_bytes());
    frame.push(length);
    frame.extend(id);
    frame.extend(username.as_bytes());
    frame
}

/// What the body of a frame says; none if it says nothing.
pub(crate) fn decode_typing_frame(body: &[u8]) -> Option<TypingUser> {
    let (until, body) = body.split_first_chunk()?;
    let (length, body) = body.split_first()?;
    let (id, name) = body.split_at_checked(usize::from(*length))?;
    let name = str::from_utf8(name).ok()?;
    Some(TypingUser {
        user_id: UserId::new(str::from_utf8(id).ok()?).ok()?,
        username: (!name.is_empty()).then(|| name.to_owned()),
        until: Timestamp(u64::from_be_bytes(*until)),
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
            let typer = decode_typing_frame(body).expect("the frame is valid");
            assert_eq!(typer.user_id, user);
            assert_eq!(typer.username.as_deref().unwrap_or_default(), name);
            assert_eq!(typer.until, Timestamp(1_700_000_000_123));
            for cut in 0..9 + id.len() {
                assert_eq!(decode_typing_frame(&body[..cut]), None, "{cut}");
            }
        }
    }
}
