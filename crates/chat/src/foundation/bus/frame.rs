//! Frames of the bus: a version byte, a kind byte and a body, whose format belongs to the capability of the kind.
//!
//! Invariant: a node of another version, older or newer, can tell that it does not understand a frame. No frame is an
//! error.

use serde::Serialize;

/// Kind of a frame. The number of a kind is never used again for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum BusFrameKind {
    /// A user started or stopped typing.
    Typing = 1,
    /// A device was removed, and the gateway that has its socket must close it.
    DeviceRemoved = 2,
    /// A message was created. Published on the conversation's channel, in `seq` order.
    MessageCreated = 3,
    /// A message was edited or deleted. Published on the conversation's channel.
    MessageChanged = 4,
    /// A member received or read messages. Published on the conversation's channel.
    Receipt = 5,
    /// Members were added, removed or changed. Published on the conversation's channel, so that it is in order with the
    /// messages.
    MembersChanged = 6,
    /// Unread counts of a user changed. Published on the user's channel.
    UnreadChanged = 7,
    /// A user joined or left a conversation. Published on the user's channel.
    MembershipChanged = 8,
    /// Sessions of a user ended. Published on the channel of all nodes.
    SessionClosed = 9,
    /// A new message in a conversation above the fan-out limit. Published on a separate channel of all nodes.
    LargeConversationMessage = 10,
    /// Title, `open`, `history` or priority of a conversation changed. Published on the channels of the conversation and
    /// of its members.
    ConversationUpdated = 11,
    /// Members of a conversation above the fan-out limit changed. Published on the channel of large conversations.
    LargeMembersChanged = 13,
}

impl BusFrameKind {
    // The number 12 was used before.
    const ALL: [Self; 12] = [
        Self::Typing,
        Self::DeviceRemoved,
        Self::MessageCreated,
        Self::MessageChanged,
        Self::Receipt,
        Self::MembersChanged,
        Self::UnreadChanged,
        Self::MembershipChanged,
        Self::SessionClosed,
        Self::LargeConversationMessage,
        Self::ConversationUpdated,
        Self::LargeMembersChanged,
    ];

    /// Version of the body format. Nodes that do not know it read the state from the database instead.
    const fn version(self) -> u8 {
        match self {
            // Version 2 contains the `members_version`.
            Self::MessageCreated | Self::MessageChanged => 2,
            _ => 1,
        }
    }
}

/// A received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusFrame<'a> {
    /// A frame of a known kind, and its body.
    Known(BusFrameKind, &'a [u8]),
    /// A frame of an unknown kind. A receiver of other kinds can ignore it.
    UnknownKind,
    /// A frame of another version, or no frame. A receiver that derives state from frames has to read the state again.
    UnknownVersion,
}

/// Starts a frame of this kind, with room for a body of `body_len` bytes.
pub fn start_frame(kind: BusFrameKind, body: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(2 + body);
    frame.extend([kind.version(), kind as u8]);
    frame
}

/// Encodes a frame with a JSON body.
pub(crate) fn encode_json(kind: BusFrameKind, body: &impl Serialize) -> Vec<u8> {
    let mut frame = start_frame(kind, 128);
    serde_json::to_writer(&mut frame, body).expect("a frame body can be serialized as JSON");
    frame
}

impl<'a> From<&'a [u8]> for BusFrame<'a> {
    fn from(payload: &'a [u8]) -> Self {
        let [version, kind, body @ ..] = payload else {
            return Self::UnknownVersion;
        };
        let known = BusFrameKind::ALL.into_iter().find(|it| *it as u8 == *kind);
        match known {
            Some(kind) if kind.version() == *version => Self::Known(kind, body),
            None if *version == 1 => Self::UnknownKind,
            _ => Self::UnknownVersion,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_frames_are_recognised_by_version_and_kind() {
        for kind in BusFrameKind::ALL {
            let mut frame = start_frame(kind, 1);
            frame.push(b'x');
            assert_eq!(BusFrame::from(&frame[..]), BusFrame::Known(kind, b"x"));
        }
        assert_eq!(BusFrame::from(&[1, 77, 0][..]), BusFrame::UnknownKind);
        // Messages have version 2, typing has version 1.
        for other in [&[2, 1, b'x'][..], &[1, 3, b'x'], &[1], &[], b"text"] {
            assert_eq!(BusFrame::from(other), BusFrame::UnknownVersion);
        }
    }
}
