//! State of a frame or a message that has not arrived completely.

use super::header::{self, FrameHeader};
use super::parser::{self, WebSocketMessage};
use super::{FrameError, Opcode, mask::apply_mask};

#[derive(Debug, Default)]
pub(super) struct PartialMessage {
    /// Bytes of an incomplete header.
    header_bytes: [u8; header::MAX_CLIENT_HEADER_LEN],
    header_len: usize,
    /// Frame whose payload is incomplete.
    frame: Option<PartialFrame>,
    /// Message whose fragments are arriving. Control frames may stand between them.
    body: Option<MessageBody>,
}

#[derive(Debug)]
struct PartialFrame {
    header: FrameHeader,
    payload_len: usize,
    payload_read: usize,
    control_payload: Vec<u8>,
}

/// Payload of a message so far. Text is validated as it arrives, not at its end.
#[derive(Debug)]
pub(super) struct MessageBody {
    /// `Text` or `Binary`.
    opcode: Opcode,
    bytes: Vec<u8>,
    /// Bytes of valid text at the front; at most three more are an incomplete code point.
    valid_len: usize,
}

impl MessageBody {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        self.bytes.extend_from_slice(bytes);
        if self.opcode == Opcode::Text {
            self.valid_len += match std::str::from_utf8(&self.bytes[self.valid_len..]) {
                Ok(text) => text.len(),
                Err(error) if error.error_len().is_some() => return Err(FrameError::InvalidUtf8),
                Err(error) => error.valid_up_to(),
            };
        }
        Ok(())
    }
}

impl PartialMessage {
    /// True if the next byte begins a frame.
    pub(super) fn is_at_frame_boundary(&self) -> bool {
        self.header_len == 0 && self.frame.is_none()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.is_at_frame_boundary() && self.body.is_none()
    }

    pub(super) fn body(&self) -> Option<&MessageBody> {
        self.body.as_ref()
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        let frame = self.frame.as_ref();
        let body = self.body.as_ref();
        frame.map_or(0, |frame| frame.control_payload.capacity())
            + body.map_or(0, |body| body.bytes.capacity())
    }

    /// Consumes `input` until a message is complete or `input` is empty.
    pub(super) fn feed<'a>(
        &mut self,
        input: &mut &'a mut [u8],
        max_message_bytes: usize,
    ) -> Result<Option<WebSocketMessage<'a>>, FrameError> {
        if self.frame.is_none() && !self.feed_header(input, max_message_bytes)? {
            return Ok(None);
        }
        let Some(frame) = &mut self.frame else {
            return Ok(None);
        };
        let take = input.len().min(frame.payload_len - frame.payload_read);
        let (piece, rest) = std::mem::take(input).split_at_mut(take);
        *input = rest;
        apply_mask(piece, frame.header.masking_key, frame.payload_read);
        frame.payload_read += take;
        if frame.header.opcode.is_control() {
            frame.control_payload.extend_from_slice(piece);
        } else if let Some(body) = &mut self.body {
            body.push(piece)?;
        }
        if frame.payload_read < frame.payload_len {
            return Ok(None);
        }
        self.finish_frame()
    }

    /// Consumes the bytes of a header. Returns true if the header is complete.
    fn feed_header(
        &mut self,
        input: &mut &mut [u8],
        max_message_bytes: usize,
    ) -> Result<bool, FrameError> {
        loop {
            if let Some((header, _)) =
                header::parse_client_header(&self.header_bytes[..self.header_len])?
            {
                let payload_len =
                    parser::check_frame_allowed(&header, self.body.as_ref(), max_message_bytes)?;
                if matches!(header.opcode, Opcode::Text | Opcode::Binary) {
                    self.body = Some(MessageBody {
                        opcode: header.opcode,
                        bytes: Vec::new(),
                        valid_len: 0,
                    });
                }
                self.header_len = 0;
                self.frame = Some(PartialFrame {
                    header,
                    payload_len,
                    payload_read: 0,
                    control_payload: Vec::new(),
                });
                return Ok(true);
            }
            let Some((byte, rest)) = std::mem::take(input).split_first_mut() else {
                return Ok(false);
            };
            *input = rest;
            // A header of maximum length is complete, so there is space for one more byte.
            self.header_bytes[self.header_len] = *byte;
            self.header_len += 1;
        }
    }

    fn finish_frame<'a>(&mut self) -> Result<Option<WebSocketMessage<'a>>, FrameError> {
        let Some(frame) = self.frame.take() else {
            return Ok(None);
        };
        let opcode = frame.header.opcode;
        let complete = if opcode.is_control() {
            Some((opcode, frame.control_payload))
        } else if frame.header.fin {
            self.body.take().map(|body| (body.opcode, body.bytes))
        } else {
            None
        };
        complete
            .map(|(opcode, payload)| parser::to_message(opcode, payload.into()))
            .transpose()
    }
}
