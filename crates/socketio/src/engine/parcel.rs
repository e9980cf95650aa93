//! What waits for a client: whole WebSocket frames, made once and shared by all who get them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::account::{MemoryBudget, MemoryCharge};
use crate::frame::{Opcode, write};
use crate::packet::engine::{append_binary_packet, append_text_packet, polling_binary_len};

/// A packet with its attachments, as a WebSocket client gets it. Polling takes the payloads out of the frames again.
#[derive(Debug)]
pub(crate) struct EncodedFrame {
    wire: Bytes,
    /// By which a client names the last that it got; 0: not kept for recovery.
    pub(crate) recovery_offset: u64,
    /// When it was made, in seconds since the server's start.
    pub(crate) created_at_secs: u32,
    /// Its memory, if it is kept.
    charge: Option<MemoryCharge>,
    /// The same for clients that keep no offset, once one of them was sent it.
    without_offset: OnceLock<Arc<EncodedFrame>>,
}

impl EncodedFrame {
    /// A packet whose text is written by `fill`, about `size` bytes, with its attachments.
    pub(crate) fn encode_packet(
        size: usize,
        attachments: &[Bytes],
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        let text = write::encode_frame_with(Opcode::Text, size, fill).bytes;
        if attachments.is_empty() {
            return Self::from_bytes(text);
        }
        let mut all = Vec::from(text);
        for part in attachments {
            all.extend_from_slice(&write::encode_binary(part));
        }
        Self::from_bytes(all.into())
    }

    /// A frame of the engine itself.
    pub(crate) fn from_bytes(wire: Bytes) -> Self {
        Self {
            wire,
            recovery_offset: 0,
            created_at_secs: 0,
            charge: None,
            without_offset: OnceLock::new(),
        }
    }

    /// The same, kept for clients that come back.
    pub(crate) fn into_recoverable(
        mut self,
        offset: u64,
        made: u32,
        account: &MemoryBudget,
    ) -> Self {
        self.charge = Some(account.charge(self.wire.len()));
        Self {
            recovery_offset: offset,
            created_at_secs: made,
            ..self
        }
    }

    /// A text of the engine itself.
    pub(crate) fn from_text(text: &str) -> Arc<Self> {
        Arc::new(Self::from_bytes(write::text(text.as_bytes())))
    }

    pub(crate) fn wire(&self) -> &[u8] {
        &self.wire
    }

    /// The same packet of another namespace than the root, for which it was made.
    pub(crate) fn for_namespace(&self, namespace: &str) -> Self {
        let mut frames = ServerFrames(&self.wire);
        let Some((_, text)) = frames.next() else {
            return Self::from_bytes(self.wire.clone());
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
        let first =
            write::encode_frame_with(Opcode::Text, text.len() + namespace.len() + 1, |out| {
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
        let share = self
            .charge
            .as_ref()
            .map(|share| share.charge_same_budget(wire.len()));
        Self {
            wire,
            charge: share,
            recovery_offset: self.recovery_offset,
            created_at_secs: self.created_at_secs,
            without_offset: OnceLock::new(),
        }
    }

    /// The same for a client that keeps no offset.
    pub(crate) fn without_offset(self: &Arc<Self>) -> Arc<Self> {
        if self.recovery_offset == 0 {
            return Arc::clone(self);
        }
        let plain = || {
            let text = ServerFrames(&self.wire)
                .next()
                .map_or(&[][..], |(_, text)| text);
            // The offset is the last argument, and has no comma in it.
            let end = text.iter().rposition(|byte| *byte == b',');
            let event = &text[..end.unwrap_or(text.len())];
            Arc::new(Self::encode_packet(event.len() + 1, &[], |out| {
                out.extend_from_slice(event);
                out.push(b']');
            }))
        };
        Arc::clone(self.without_offset.get_or_init(plain))
    }

    /// How many bytes it adds to a polling body.
    pub(crate) fn polling_len(&self) -> usize {
        ServerFrames(&self.wire)
            .map(|(opcode, payload)| match opcode {
                Opcode::Binary => 1 + polling_binary_len(payload.len()),
                Opcode::Text => 1 + payload.len(),
                _ => 0,
            })
            .sum()
    }

    /// Appends it to a polling body.
    pub(crate) fn append_to_polling_body(&self, body: &mut Vec<u8>) {
        for (opcode, payload) in ServerFrames(&self.wire) {
            match opcode {
                Opcode::Text => append_text_packet(payload, body),
                Opcode::Binary => append_binary_packet(payload, body),
                _ => {}
            }
        }
    }
}

/// The frames in what we wrote ourselves.
struct ServerFrames<'a>(&'a [u8]);

impl<'a> Iterator for ServerFrames<'a> {
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
