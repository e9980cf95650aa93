//! What waits for a client: whole WebSocket frames, made once and shared by all who get them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::account::{Account, Share};
use crate::frame::{Opcode, write};
use crate::packet::engine::{binary_len, join_binary, join_text};

/// A packet with its attachments, as a WebSocket client gets it. Polling takes the payloads out of the frames again.
#[derive(Debug)]
pub(crate) struct Parcel {
    wire: Bytes,
    /// By which a client names the last that it got; 0: not kept for recovery.
    pub(crate) offset: u64,
    /// When it was made, in seconds since the server's start.
    pub(crate) made: u32,
    /// Its memory, if it is kept.
    share: Option<Share>,
    /// The same for clients that keep no offset, once one of them was sent it.
    plain: OnceLock<Arc<Parcel>>,
}

impl Parcel {
    /// A packet whose text is written by `fill`, about `size` bytes, with its attachments.
    pub(crate) fn packet(
        size: usize,
        attachments: &[Bytes],
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        let text = write::build(Opcode::Text, size, fill).bytes;
        if attachments.is_empty() {
            return Self::of(text);
        }
        let mut all = Vec::from(text);
        for part in attachments {
            all.extend_from_slice(&write::binary(part));
        }
        Self::of(all.into())
    }

    /// A frame of the engine itself.
    pub(crate) fn of(wire: Bytes) -> Self {
        Self {
            wire,
            offset: 0,
            made: 0,
            share: None,
            plain: OnceLock::new(),
        }
    }

    /// The same, kept for clients that come back.
    pub(crate) fn kept(mut self, offset: u64, made: u32, account: &Account) -> Self {
        self.share = Some(account.share(self.wire.len()));
        Self {
            offset,
            made,
            ..self
        }
    }

    /// A text of the engine itself.
    pub(crate) fn text(text: &str) -> Arc<Self> {
        Arc::new(Self::of(write::text(text.as_bytes())))
    }

    pub(crate) fn wire(&self) -> &[u8] {
        &self.wire
    }

    /// The same packet of another namespace than the root, for which it was made.
    pub(crate) fn within(&self, namespace: &str) -> Self {
        let mut frames = Frames(&self.wire);
        let Some((_, text)) = frames.next() else {
            return Self::of(self.wire.clone());
        };
        // The namespace comes after the type, `42`, or after the number of attachments, `451-`.
        let at = match text.get(1) {
            Some(b'5' | b'6') => text
                .iter()
                .position(|byte| *byte == b'-')
                .map_or(2, |at| at + 1),
            _ => 2,
        };
        let (head, rest) = text.split_at(at.min(text.len()));
        let first = write::build(Opcode::Text, text.len() + namespace.len() + 1, |out| {
            out.extend_from_slice(head);
            out.extend_from_slice(namespace.as_bytes());
            out.push(b',');
            out.extend_from_slice(rest);
        })
        .bytes;
        let wire = if frames.0.is_empty() {
            first
        } else {
            [&first[..], frames.0].concat().into()
        };
        let share = self.share.as_ref().map(|share| share.another(wire.len()));
        Self {
            wire,
            share,
            offset: self.offset,
            made: self.made,
            plain: OnceLock::new(),
        }
    }

    /// The same for a client that keeps no offset.
    pub(crate) fn without_offset(self: &Arc<Self>) -> Arc<Self> {
        if self.offset == 0 {
            return Arc::clone(self);
        }
        let plain = || {
            let text = Frames(&self.wire).next().map_or(&[][..], |(_, text)| text);
            // The offset is the last argument, and has no comma in it.
            let end = text.iter().rposition(|byte| *byte == b',');
            let event = &text[..end.unwrap_or(text.len())];
            Arc::new(Self::packet(event.len() + 1, &[], |out| {
                out.extend_from_slice(event);
                out.push(b']');
            }))
        };
        Arc::clone(self.plain.get_or_init(plain))
    }

    /// How many bytes it adds to a polling body.
    pub(crate) fn polled(&self) -> usize {
        Frames(&self.wire)
            .map(|(opcode, payload)| match opcode {
                Opcode::Binary => 1 + binary_len(payload.len()),
                Opcode::Text => 1 + payload.len(),
                _ => 0,
            })
            .sum()
    }

    /// Appends it to a polling body.
    pub(crate) fn join(&self, body: &mut Vec<u8>) {
        for (opcode, payload) in Frames(&self.wire) {
            match opcode {
                Opcode::Text => join_text(payload, body),
                Opcode::Binary => join_binary(payload, body),
                _ => {}
            }
        }
    }
}

/// The frames in what we wrote ourselves.
struct Frames<'a>(&'a [u8]);

impl<'a> Iterator for Frames<'a> {
    type Item = (Opcode, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[first, short], rest) = self.0.split_first_chunk()?;
        let (length, rest) = match short {
            126 => {
                let (length, rest) = rest.split_first_chunk()?;
                (u16::from_be_bytes(*length).into(), rest)
            }
            127 => {
                let (length, rest) = rest.split_first_chunk()?;
                (usize::try_from(u64::from_be_bytes(*length)).ok()?, rest)
            }
            short => (short.into(), rest),
        };
        let (payload, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        let opcode = match first & 0x0f {
            1 => Opcode::Text,
            2 => Opcode::Binary,
            _ => Opcode::Pong,
        };
        Some((opcode, payload))
    }
}
