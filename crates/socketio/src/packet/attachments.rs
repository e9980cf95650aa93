//! A packet that waits for its attachments. Bounded in number by the packet and in bytes by the caller.

use super::socket::{SocketIoPacket, SocketIoPacketError};
use bytes::Bytes;

/// The text of a binary packet and what has arrived of its attachments.
#[derive(Debug)]
pub struct PartialBinaryPacket {
    text: Box<str>,
    expected: usize,
    attachments: Vec<Bytes>,
    /// How many bytes may still come.
    remaining_bytes: usize,
}

/// What a binary message did.
#[derive(Debug)]
pub enum AttachmentProgress {
    /// More attachments belong to the packet.
    Incomplete(PartialBinaryPacket),
    /// The text to decode again, and all its attachments.
    Complete(Box<str>, Vec<Bytes>),
}

impl PartialBinaryPacket {
    /// Begins to wait for the attachments of `packet`, whose text is `text`; all of it may be `limit` bytes long.
    #[must_use]
    pub fn new(packet: &SocketIoPacket<'_>, text: &str, limit: usize) -> Self {
        Self {
            text: text.into(),
            expected: packet.attachments,
            attachments: Vec::new(),
            remaining_bytes: limit.saturating_sub(text.len()),
        }
    }

    /// Takes the next attachment.
    ///
    /// # Errors
    /// Together they are too large.
    pub fn with(mut self, part: Bytes) -> Result<AttachmentProgress, SocketIoPacketError> {
        self.remaining_bytes = self
            .remaining_bytes
            .checked_sub(part.len())
            .ok_or(SocketIoPacketError::Attachments)?;
        self.attachments.push(part);
        Ok(if self.attachments.len() < self.expected {
            AttachmentProgress::Incomplete(self)
        } else {
            AttachmentProgress::Complete(self.text, self.attachments)
        })
    }
}
