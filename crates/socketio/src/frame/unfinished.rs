//! What has arrived of a frame or of a message whose end has not.

use super::header::{self, Header};
use super::parser::{self, Message};
use super::text::Text;
use super::{Opcode, Violation, mask};

#[derive(Debug, Default)]
pub(super) struct Unfinished {
    /// The begin of a head.
    head: [u8; header::LONGEST],
    head_len: usize,
    /// The frame being read.
    frame: Option<Frame>,
    /// The message whose fragments are being read. Control frames may come between.
    body: Option<Body>,
}

#[derive(Debug)]
struct Frame {
    header: Header,
    length: usize,
    read: usize,
    control: Vec<u8>,
}

#[derive(Debug)]
pub(super) enum Body {
    Text(Text),
    Binary(Vec<u8>),
}

impl Body {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Binary(bytes) => bytes.len(),
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        match self {
            Self::Text(text) => text.push(bytes).map_err(|_| Violation::Text),
            Self::Binary(all) => {
                all.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<Message<'static>, Violation> {
        Ok(match self {
            Self::Text(text) => Message::Text(text.finish().map_err(|_| Violation::Text)?.into()),
            Self::Binary(bytes) => Message::Binary(bytes.into()),
        })
    }
}

impl Unfinished {
    /// Whether the next byte begins a frame.
    pub(super) fn between_frames(&self) -> bool {
        self.head_len == 0 && self.frame.is_none()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.between_frames() && self.body.is_none()
    }

    pub(super) fn body(&self) -> Option<&Body> {
        self.body.as_ref()
    }

    pub(super) fn held(&self) -> usize {
        let control = self.frame.as_ref().map_or(0, |it| it.control.capacity());
        control
            + match &self.body {
                Some(Body::Text(text)) => text.capacity(),
                Some(Body::Binary(bytes)) => bytes.capacity(),
                None => 0,
            }
    }

    /// Reads on until a message is complete or `input` at its end.
    pub(super) fn read<'a>(
        &mut self,
        input: &mut &'a mut [u8],
        limit: usize,
    ) -> Result<Option<Message<'a>>, Violation> {
        if self.frame.is_none() && !self.read_head(input, limit)? {
            return Ok(None);
        }
        let Some(frame) = &mut self.frame else {
            return Ok(None);
        };
        let take = input.len().min(frame.length - frame.read);
        let (piece, rest) = std::mem::take(input).split_at_mut(take);
        *input = rest;
        mask(piece, frame.header.key, frame.read);
        frame.read += take;
        if frame.header.opcode.is_control() {
            frame.control.extend_from_slice(piece);
        } else if let Some(body) = &mut self.body {
            body.push(piece)?;
        }
        if frame.read < frame.length {
            return Ok(None);
        }
        self.end_of_frame()
    }

    /// Takes the bytes of a head. Whether it is complete.
    fn read_head(&mut self, input: &mut &mut [u8], limit: usize) -> Result<bool, Violation> {
        loop {
            if let Some((header, _)) = header::parse(&self.head[..self.head_len])? {
                let length = parser::check(&header, self.body.as_ref(), limit)?;
                match header.opcode {
                    Opcode::Text => self.body = Some(Body::Text(Text::default())),
                    Opcode::Binary => self.body = Some(Body::Binary(Vec::new())),
                    _ => {}
                }
                self.head_len = 0;
                self.frame = Some(Frame {
                    header,
                    length,
                    read: 0,
                    control: Vec::new(),
                });
                return Ok(true);
            }
            let Some((byte, rest)) = std::mem::take(input).split_first_mut() else {
                return Ok(false);
            };
            *input = rest;
            // Heads of the longest length are complete, so there is room for one more byte.
            self.head[self.head_len] = *byte;
            self.head_len += 1;
        }
    }

    fn end_of_frame<'a>(&mut self) -> Result<Option<Message<'a>>, Violation> {
        let Some(frame) = self.frame.take() else {
            return Ok(None);
        };
        Ok(match frame.header.opcode {
            Opcode::Ping => Some(Message::Ping(frame.control.into())),
            Opcode::Pong => Some(Message::Pong(frame.control.into())),
            Opcode::Close => {
                let close = parser::close(&frame.control)?;
                Some(Message::Close(
                    close.map(|(code, reason)| (code, reason.into_owned().into())),
                ))
            }
            _ if frame.header.last => self.body.take().map(Body::finish).transpose()?,
            _ => None,
        })
    }
}
