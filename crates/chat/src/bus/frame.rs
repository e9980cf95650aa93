//! What every frame of these channels starts with: a version byte and a kind byte. The rest is the business of the capability
//! whose kind it is.
//!
//! Always true: a node of another version, older or newer, can tell that a frame is not for it; it fails on none.

/// The version of the frames that this program writes and understands.
pub const FRAME_VERSION: u8 = 1;

/// Whose frame it is. A number is never used for another kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum BusFrameKind {
    /// Somebody types, or no longer.
    Typing = 1,
    /// A device was removed, and the socket that held it has to go.
    DeviceRemoved = 2,
    /// A message was created. On the conversation's channel, in `seq` order.
    MessageCreated = 3,
    /// A message was edited or deleted. On the conversation's channel.
    MessageChanged = 4,
    /// A member has got or read messages. On the conversation's channel.
    Receipt = 5,
    /// Members came or went. On the conversation's channel, so that it is in order with the messages.
    MembersChanged = 6,
    /// A user's unread counts changed. On the user's channel.
    UnreadChanged = 7,
    /// A user came into a conversation or left it. On the user's channel.
    MembershipChanged = 8,
    /// Sessions of a user ended. On the channel for every node.
    SessionClosed = 9,
    /// There is a message in a conversation above the fan-out limit. On a channel of its own for every node.
    LargeConversationMessage = 10,
}

impl BusFrameKind {
    const ALL: [Self; 10] = [
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
    ];
}

/// A frame that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusFrame<'a> {
    /// One of a known kind, and what follows its head.
    Known(BusFrameKind, &'a [u8]),
    /// One of a kind that this program has no use for. Whoever waits for another kind misses nothing.
    UnknownKind,
    /// One of another version, or no frame at all: whoever keeps a state by frames has to fetch it.
    UnknownVersion,
}

/// The head of a frame of this kind, with room for a body.
pub fn head(kind: BusFrameKind, body: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(2 + body);
    frame.extend([FRAME_VERSION, kind as u8]);
    frame
}

impl<'a> From<&'a [u8]> for BusFrame<'a> {
    fn from(payload: &'a [u8]) -> Self {
        let [FRAME_VERSION, kind, body @ ..] = payload else {
            return Self::UnknownVersion;
        };
        let known = BusFrameKind::ALL.into_iter().find(|it| *it as u8 == *kind);
        known.map_or(Self::UnknownKind, |kind| Self::Known(kind, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_frames_are_recognised_by_version_and_kind() {
        for kind in BusFrameKind::ALL {
            let mut frame = head(kind, 1);
            frame.push(b'x');
            assert_eq!(BusFrame::from(&frame[..]), BusFrame::Known(kind, b"x"));
        }
        assert_eq!(BusFrame::from(&[1, 77, 0][..]), BusFrame::UnknownKind);
        for other in [&[2, 1, b'x'][..], &[1], &[], b"text"] {
            assert_eq!(BusFrame::from(other), BusFrame::UnknownVersion);
        }
    }
}
