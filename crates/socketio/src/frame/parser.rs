//! Messages out of bytes that arrive cut anywhere.

use super::header::{self, Header};
use super::unfinished::{Body, Unfinished};
use super::{Opcode, Violation, mask};
use std::borrow::Cow;

/// What a client sent. Borrowed from the bytes read when it lay in them in one frame, else put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// Bytes.
    Binary(Cow<'a, [u8]>),
    /// To be answered by a pong with the same bytes, at most 125.
    Ping(Cow<'a, [u8]>),
    /// The answer to a ping, or none to any.
    Pong(Cow<'a, [u8]>),
    /// The last message: status code and reason, `None` where it had no code. What follows it is not to be read.
    Close(Option<(u16, Cow<'a, str>)>),
}

/// Reads the frames of one client. After a [`Violation`] or a [`Message::Close`] it is not to be asked again.
#[derive(Debug)]
pub struct Parser {
    limit: usize,
    unfinished: Option<Box<Unfinished>>,
}

impl Parser {
    /// A parser that refuses messages of more than `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            unfinished: None,
        }
    }

    /// The next message at the front of `input`, which is unmasked in place and cut off by what was read.
    /// `None`: all of it was read, more is needed.
    ///
    /// # Errors
    /// The client broke the protocol or the bound.
    pub fn next<'a>(&mut self, input: &mut &'a mut [u8]) -> Result<Option<Message<'a>>, Violation> {
        while !input.is_empty() {
            if self
                .unfinished
                .as_ref()
                .is_none_or(|it| it.between_frames())
            {
                match self.whole(input)? {
                    Whole::Message(message) => return Ok(Some(message)),
                    Whole::No => {}
                }
            }
            let unfinished = self.unfinished.get_or_insert_default();
            if let Some(message) = unfinished.read(input, self.limit)? {
                if unfinished.is_empty() {
                    self.unfinished = None;
                }
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// The bytes held for what is unfinished.
    #[must_use]
    pub fn held(&self) -> usize {
        self.unfinished
            .as_ref()
            .map_or(0, |it| size_of::<Unfinished>() + it.held())
    }

    /// A frame that is a message by itself and lies in the input to its end: nothing of it is copied.
    fn whole<'a>(&self, input: &mut &'a mut [u8]) -> Result<Whole<'a>, Violation> {
        let Some((header, at)) = header::parse(input)? else {
            return Ok(Whole::No);
        };
        let length = check(
            &header,
            self.unfinished.as_ref().and_then(|it| it.body()),
            self.limit,
        )?;
        let alone = header.last && header.opcode != Opcode::Continuation;
        if !alone || input.len() - at < length {
            return Ok(Whole::No);
        }
        let (frame, rest) = std::mem::take(input).split_at_mut(at + length);
        *input = rest;
        let payload = &mut frame[at..];
        mask(payload, header.key, 0);
        let payload: &'a [u8] = payload;
        Ok(Whole::Message(match header.opcode {
            Opcode::Text => Message::Text(
                std::str::from_utf8(payload)
                    .map_err(|_| Violation::Text)?
                    .into(),
            ),
            Opcode::Binary | Opcode::Continuation => Message::Binary(payload.into()),
            Opcode::Ping => Message::Ping(payload.into()),
            Opcode::Pong => Message::Pong(payload.into()),
            Opcode::Close => Message::Close(close(payload)?),
        }))
    }
}

enum Whole<'a> {
    Message(Message<'a>),
    No,
}

/// May this frame come now, and is there room for it? Gives the length of its payload.
pub(super) fn check(
    header: &Header,
    body: Option<&Body>,
    limit: usize,
) -> Result<usize, Violation> {
    match (header.opcode, body) {
        (Opcode::Text | Opcode::Binary, Some(_)) => {
            return Err(Violation::Protocol(
                "new message before the end of the last",
            ));
        }
        (Opcode::Continuation, None) => {
            return Err(Violation::Protocol("continuation of no message"));
        }
        _ => {}
    }
    let before = match header.opcode {
        Opcode::Continuation => body.map_or(0, Body::len),
        // The bound is for messages; a control frame has its own.
        opcode if opcode.is_control() => {
            return Ok(header.length.try_into().unwrap_or(header::CONTROL));
        }
        _ => 0,
    };
    match usize::try_from(header.length) {
        Ok(length) if length <= limit.saturating_sub(before) => Ok(length),
        _ => Err(Violation::TooLarge(limit)),
    }
}

/// The code and the reason in a close frame.
pub(super) fn close(payload: &[u8]) -> Result<Option<(u16, Cow<'_, str>)>, Violation> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return match payload {
            [] => Ok(None),
            _ => Err(Violation::Protocol("close frame with half a status code")),
        };
    };
    let code = u16::from_be_bytes(*code);
    if !may_be_sent(code) {
        return Err(Violation::Protocol("status code that may not be sent"));
    }
    let reason = std::str::from_utf8(reason).map_err(|_| Violation::Text)?;
    Ok(Some((code, reason.into())))
}

/// Codes that the RFC or its registry gives a meaning on the wire, and those for libraries and applications.
fn may_be_sent(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}
