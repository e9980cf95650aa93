//! Incremental parser of client frames; the input may be split at any byte.

use super::header::{self, FrameHeader};
use super::partial_message::{MessageBody, PartialMessage};
use super::{FrameError, Opcode, mask::apply_mask};
use std::borrow::Cow;

/// Message or control frame of a client. Borrows from the input if the input contains it as one complete frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebSocketMessage<'a> {
    /// Text message.
    Text(Cow<'a, str>),
    /// Binary message.
    Binary(Cow<'a, [u8]>),
    /// Ping with at most 125 bytes; the receiver answers with a pong that has the same payload.
    Ping(Cow<'a, [u8]>),
    /// Pong, with or without a preceding ping.
    Pong(Cow<'a, [u8]>),
    /// Close frame: status code and reason, `None` without a code. Input after it must not be parsed.
    Close(Option<(u16, String)>),
}

/// Parses the frames of one client. It must not be used after a [`FrameError`] or a [`WebSocketMessage::Close`].
#[derive(Debug)]
pub struct FrameParser {
    max_message_bytes: usize,
    partial: Option<Box<PartialMessage>>,
}

impl FrameParser {
    /// Creates a parser that rejects messages of more than `max_message_bytes`.
    pub fn new(max_message_bytes: usize) -> Self {
        Self {
            max_message_bytes,
            partial: None,
        }
    }

    /// Returns the next message. Unmasks `input` in place and advances it. `None`: all of `input` is consumed and no
    /// message is complete.
    ///
    /// # Errors
    /// The client broke the protocol or exceeded the limit.
    pub fn next_message<'a>(
        &mut self,
        input: &mut &'a mut [u8],
    ) -> Result<Option<WebSocketMessage<'a>>, FrameError> {
        while !input.is_empty() {
            if self
                .partial
                .as_ref()
                .is_none_or(|it| it.is_at_frame_boundary())
                && let Some(message) = self.parse_unfragmented(input)?
            {
                return Ok(Some(message));
            }
            let partial = self.partial.get_or_insert_default();
            if let Some(message) = partial.feed(input, self.max_message_bytes)? {
                if partial.is_empty() {
                    self.partial = None;
                }
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Bytes held for an incomplete frame or message.
    pub fn buffered_bytes(&self) -> usize {
        self.partial
            .as_ref()
            .map_or(0, |it| size_of::<PartialMessage>() + it.buffered_bytes())
    }

    /// Parses an unfragmented frame that `input` contains completely, without copying its payload.
    fn parse_unfragmented<'a>(
        &self,
        input: &mut &'a mut [u8],
    ) -> Result<Option<WebSocketMessage<'a>>, FrameError> {
        let Some((header, header_len)) = header::parse_client_header(input)? else {
            return Ok(None);
        };
        let payload_len = check_frame_allowed(
            &header,
            self.partial.as_ref().and_then(|it| it.body()),
            self.max_message_bytes,
        )?;
        let is_unfragmented = header.fin && header.opcode != Opcode::Continuation;
        if !is_unfragmented || input.len() - header_len < payload_len {
            return Ok(None);
        }
        let (frame, rest) = std::mem::take(input).split_at_mut(header_len + payload_len);
        *input = rest;
        let payload = &mut frame[header_len..];
        apply_mask(payload, header.masking_key, 0);
        to_message(header.opcode, Cow::Borrowed(payload)).map(Some)
    }
}

/// Message with this opcode and its complete payload.
pub(super) fn to_message(
    opcode: Opcode,
    payload: Cow<'_, [u8]>,
) -> Result<WebSocketMessage<'_>, FrameError> {
    Ok(match (opcode, payload) {
        (Opcode::Text, Cow::Borrowed(bytes)) => {
            let text = std::str::from_utf8(bytes).map_err(|_| FrameError::InvalidUtf8)?;
            WebSocketMessage::Text(text.into())
        }
        (Opcode::Text, Cow::Owned(bytes)) => {
            let text = String::from_utf8(bytes).map_err(|_| FrameError::InvalidUtf8)?;
            WebSocketMessage::Text(text.into())
        }
        (Opcode::Binary | Opcode::Continuation, payload) => WebSocketMessage::Binary(payload),
        (Opcode::Ping, payload) => WebSocketMessage::Ping(payload),
        (Opcode::Pong, payload) => WebSocketMessage::Pong(payload),
        (Opcode::Close, payload) => WebSocketMessage::Close(parse_close_payload(&payload)?),
    })
}

/// Checks that the frame is allowed now and within the limit. Returns its payload length.
pub(super) fn check_frame_allowed(
    header: &FrameHeader,
    body: Option<&MessageBody>,
    max_message_bytes: usize,
) -> Result<usize, FrameError> {
    match (header.opcode, body) {
        (Opcode::Text | Opcode::Binary, Some(_)) => {
            return Err(FrameError::Protocol(
                "new message before the end of the previous one",
            ));
        }
        (Opcode::Continuation, None) => {
            return Err(FrameError::Protocol("continuation without a message"));
        }
        _ => {}
    }
    let received = match header.opcode {
        Opcode::Continuation => body.map_or(0, MessageBody::len),
        _ => 0,
    };
    match usize::try_from(header.payload_len) {
        // The message limit does not apply to control frames: `parse_client_header` has checked theirs.
        Ok(length)
            if header.opcode.is_control()
                || length <= max_message_bytes.saturating_sub(received) =>
        {
            Ok(length)
        }
        _ => Err(FrameError::MessageTooLarge(max_message_bytes)),
    }
}

/// Parses status code and reason of a close frame.
fn parse_close_payload(payload: &[u8]) -> Result<Option<(u16, String)>, FrameError> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return match payload {
            [] => Ok(None),
            _ => Err(FrameError::Protocol(
                "close frame with an incomplete status code",
            )),
        };
    };
    let code = u16::from_be_bytes(*code);
    if !is_valid_close_code(code) {
        return Err(FrameError::Protocol(
            "status code that is not allowed in a close frame",
        ));
    }
    let reason = std::str::from_utf8(reason).map_err(|_| FrameError::InvalidUtf8)?;
    Ok(Some((code, reason.into())))
}

/// True for codes that RFC 6455 or its registry allows on the wire, and for codes of libraries and applications.
fn is_valid_close_code(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}
