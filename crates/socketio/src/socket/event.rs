//! One event of a client, read in place.

use bytes::Bytes;

use crate::packet;

/// An event as a client sent it: its name and arguments are parts of the packet's text.
#[derive(Debug)]
pub struct IncomingEvent<'a> {
    inner: packet::EventPayload<'a>,
    ack: Option<u64>,
    attachments: &'a [Bytes],
}

impl<'a> IncomingEvent<'a> {
    pub(super) fn new(
        inner: packet::EventPayload<'a>,
        ack: Option<u64>,
        attachments: &'a [Bytes],
    ) -> Self {
        Self {
            inner,
            ack,
            attachments,
        }
    }

    /// The event's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// The argument with this number, the first being 0, as JSON text.
    #[must_use]
    pub fn arg(&self, number: usize) -> Option<&'a str> {
        self.inner.arg(number)
    }

    /// All arguments as JSON texts with commas between, as [`Frame::event`](crate::Frame::event) and
    /// [`Socket::ack`](crate::Socket::ack) take them.
    #[must_use]
    pub fn args(&self) -> &'a str {
        self.inner.args()
    }

    /// The number to acknowledge it by, if the client wants to know.
    #[must_use]
    pub fn ack_id(&self) -> Option<u64> {
        self.ack
    }

    /// The binary attachments that placeholders in the arguments stand for.
    #[must_use]
    pub fn attachments(&self) -> &'a [Bytes] {
        self.attachments
    }
}
