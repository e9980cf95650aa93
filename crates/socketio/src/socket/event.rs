//! Event of a client.

use bytes::Bytes;

use crate::packet;

/// Event of a client. Name and arguments are slices of the packet's text.
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

    /// Name of the event.
    #[must_use]
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// JSON text of an argument; 0 is the first one.
    #[must_use]
    pub fn arg(&self, number: usize) -> Option<&'a str> {
        self.inner.arg(number)
    }

    /// JSON text of all arguments, separated by commas, in the form that
    /// [`EncodedEvent::new`](crate::EncodedEvent::new) and [`Socket::ack`](crate::Socket::ack) take.
    #[must_use]
    pub fn args(&self) -> &'a str {
        self.inner.args()
    }

    /// Id for [`Socket::ack`](crate::Socket::ack), if the client requests an acknowledgement.
    #[must_use]
    pub fn ack_id(&self) -> Option<u64> {
        self.ack
    }

    /// Binary attachments that placeholders in the arguments refer to.
    #[must_use]
    pub fn attachments(&self) -> &'a [Bytes] {
        self.attachments
    }
}
