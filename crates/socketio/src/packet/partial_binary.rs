//! A binary packet that waits for its attachments. The packet limits their number, the caller their bytes. Parlor's
//! gateway rejects attachments; they are here for conformance with the protocol.

use super::socket_io::{SocketIoPacket, SocketIoPacketError};
use bytes::Bytes;

/// Text of a binary packet, and the attachments that have arrived.
#[derive(Debug)]
pub struct PartialBinaryPacket {
    text: Box<str>,
    expected: usize,
    attachments: Vec<Bytes>,
    /// Bytes that may still arrive.
    remaining_bytes: usize,
}

/// Result of [`PartialBinaryPacket::add_attachment`].
#[derive(Debug)]
pub enum AttachmentProgress {
    /// More attachments are expected.
    Incomplete(PartialBinaryPacket),
    /// Text of the packet, to be decoded again, and all its attachments.
    Complete(Box<str>, Vec<Bytes>),
}

impl PartialBinaryPacket {
    /// Starts to collect the attachments of `packet`, whose text is `text`. Text and attachments may have `limit` bytes
    /// together.
    pub fn new(packet: &SocketIoPacket<'_>, text: &str, limit: usize) -> Self {
        Self {
            text: text.into(),
            expected: packet.attachments,
            attachments: Vec::new(),
            remaining_bytes: limit.saturating_sub(text.len()),
        }
    }

    /// Adds the next attachment.
    ///
    /// # Errors
    /// Text and attachments exceed the limit.
    pub fn add_attachment(
        mut self,
        attachment: Bytes,
    ) -> Result<AttachmentProgress, SocketIoPacketError> {
        self.remaining_bytes = self
            .remaining_bytes
            .checked_sub(attachment.len())
            .ok_or(SocketIoPacketError::AttachmentsTooLarge)?;
        self.attachments.push(attachment);
        Ok(if self.attachments.len() < self.expected {
            AttachmentProgress::Incomplete(self)
        } else {
            AttachmentProgress::Complete(self.text, self.attachments)
        })
    }
}
