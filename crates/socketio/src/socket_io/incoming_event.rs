//! Event of a client.

use bytes::Bytes;

use crate::packet;

/// Event of a client. Name and arguments are slices of the packet's text.
#[derive(Debug)]
pub struct IncomingEvent<'a> {
    payload: packet::EventPayload<'a>,
    ack_id: Option<u64>,
    attachments: &'a [Bytes],
}

impl<'a> IncomingEvent<'a> {
    pub(super) fn new(
        payload: packet::EventPayload<'a>,
        ack_id: Option<u64>,
        attachments: &'a [Bytes],
    ) -> Self {
        Self {
            payload,
            ack_id,
            attachments,
        }
    }

    /// Name of the event.
    #[must_use]
    pub fn name(&self) -> &str {
        self.payload.name()
    }

    /// JSON text of the first argument.
    #[must_use]
    pub fn first_arg(&self) -> Option<&'a str> {
        self.payload.first_arg()
    }

    /// JSON text of all arguments, separated by commas, in the form that
    /// [`EncodedEvent::new`](crate::EncodedEvent::new) and [`Socket::ack`](crate::Socket::ack) take.
    #[must_use]
    pub fn args(&self) -> &'a str {
        self.payload.args()
    }

    /// Id for [`Socket::ack`](crate::Socket::ack), if the client requests an acknowledgement.
    #[must_use]
    pub fn ack_id(&self) -> Option<u64> {
        self.ack_id
    }

    /// Binary attachments that placeholders in the arguments refer to.
    #[must_use]
    pub fn attachments(&self) -> &'a [Bytes] {
        self.attachments
    }
}
