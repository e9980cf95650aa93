//! A packet that waits for its attachments. Bounded in number by the packet and in bytes by the caller.

use super::socket::{Malformed, Packet};
use bytes::Bytes;

/// The text of a binary packet and what has arrived of its attachments.
#[derive(Debug)]
pub struct Pending {
    text: Box<str>,
    wanted: usize,
    parts: Vec<Bytes>,
    /// How many bytes may still come.
    room: usize,
}

/// What a binary message did.
#[derive(Debug)]
pub enum Step {
    /// More attachments belong to the packet.
    Waiting(Pending),
    /// The text to decode again, and all its attachments.
    Complete(Box<str>, Vec<Bytes>),
}

impl Pending {
    /// Begins to wait for the attachments of `packet`, whose text is `text`; all of it may be `limit` bytes long.
    #[must_use]
    pub fn new(packet: &Packet<'_>, text: &str, limit: usize) -> Self {
        Self {
            text: text.into(),
            wanted: packet.attachments,
            parts: Vec::new(),
            room: limit.saturating_sub(text.len()),
        }
    }

    /// Takes the next attachment.
    ///
    /// # Errors
    /// Together they are too large.
    pub fn with(mut self, part: Bytes) -> Result<Step, Malformed> {
        self.room = self
            .room
            .checked_sub(part.len())
            .ok_or(Malformed::Attachments)?;
        self.parts.push(part);
        Ok(if self.parts.len() < self.wanted {
            Step::Waiting(self)
        } else {
            Step::Complete(self.text, self.parts)
        })
    }
}
