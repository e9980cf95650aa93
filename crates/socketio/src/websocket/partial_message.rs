//! State of a frame or a message that has not arrived completely.

use super::header::{self, FrameHeader};
use super::parser::{self, WebSocketMessage};
use super::utf8::IncrementalUtf8;
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

#[derive(Debug)]
pub(super) enum MessageBody {
    Text(IncrementalUtf8),
    Binary(Vec<u8>),
}

impl MessageBody {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Binary(bytes) => bytes.len(),
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        match self {
            Self::Text(text) => text.push(bytes).map_err(|_| FrameError::InvalidUtf8),
            Self::Binary(all) => {
                all.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<WebSocketMessage<'static>, FrameError> {
        Ok(match self {
            Self::Text(text) => {
                WebSocketMessage::Text(text.finish().map_err(|_| FrameError::InvalidUtf8)?.into())
            }
            Self::Binary(bytes) => WebSocketMessage::Binary(bytes.into()),
        })
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
        let control = self
            .frame
            .as_ref()
            .map_or(0, |it| it.control_payload.capacity());
        control
            + match &self.body {
                Some(MessageBody::Text(text)) => text.capacity(),
                Some(MessageBody::Binary(bytes)) => bytes.capacity(),
                None => 0,
            }
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
                let length =
                    parser::check_frame_allowed(&header, self.body.as_ref(), max_message_bytes)?;
                match header.opcode {
                    Opcode::Text => self.body = Some(MessageBody::Text(IncrementalUtf8::default())),
                    Opcode::Binary => self.body = Some(MessageBody::Binary(Vec::new())),
                    _ => {}
                }
                self.header_len = 0;
                self.frame = Some(PartialFrame {
                    header,
                    payload_len: length,
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
        Ok(match frame.header.opcode {
            Opcode::Ping => Some(WebSocketMessage::Ping(frame.control_payload.into())),
            Opcode::Pong => Some(WebSocketMessage::Pong(frame.control_payload.into())),
            Opcode::Close => {
                let close = parser::parse_close_payload(&frame.control_payload)?;
                Some(WebSocketMessage::Close(
                    close.map(|(code, reason)| (code, reason.into_owned().into())),
                ))
            }
            _ if frame.header.fin => self.body.take().map(MessageBody::finish).transpose()?,
            _ => None,
        })
    }
}
