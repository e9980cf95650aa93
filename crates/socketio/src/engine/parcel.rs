//! Encoded packets: complete WebSocket frames, shared by all clients that receive them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::account::{MemoryBudget, MemoryCharge};
use crate::frame::{Opcode, write};
use crate::packet::engine::{append_binary_packet, append_text_packet, polling_binary_len};

/// A packet with its attachments, encoded as WebSocket frames. Polling extracts the payloads from the frames.
#[derive(Debug)]
pub(crate) struct EncodedFrame {
    wire: Bytes,
    /// Offset by which a client names the last event that it received; 0 if the frame is not recoverable.
    pub(crate) recovery_offset: u64,
    /// Time of the encoding, in seconds since the start of the server.
    pub(crate) created_at_secs: u32,
    /// Charge of a recoverable frame.
    charge: Option<MemoryCharge>,
    /// Copy without the offset, for clients without recovery support; created on first use.
    without_offset: OnceLock<Arc<EncodedFrame>>,
}

impl EncodedFrame {
    /// Encodes a packet whose text `fill` appends, and its attachments. `size` is an estimate of the length of the
    /// text.
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

    /// Wraps frames that are already encoded.
    pub(crate) fn from_bytes(wire: Bytes) -> Self {
        Self {
            wire,
            recovery_offset: 0,
            created_at_secs: 0,
            charge: None,
            without_offset: OnceLock::new(),
        }
    }

    /// Makes the frame recoverable and charges its bytes to the memory budget.
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

    /// Encodes a text message.
    pub(crate) fn from_text(text: &str) -> Arc<Self> {
        Arc::new(Self::from_bytes(write::text(text.as_bytes())))
    }

    pub(crate) fn wire(&self) -> &[u8] {
        &self.wire
    }

    /// Copies a packet of the main namespace for another namespace. Each socket there gets a copy of its own.
    pub(crate) fn for_namespace(&self, namespace: &str) -> Self {
        let mut frames = ServerFrames(&self.wire);
        let Some((_, text)) = frames.next() else {
            return Self::from_bytes(self.wire.clone());
        };
        // The namespace follows the packet type, `42`, or the number of attachments, `451-`.
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

    /// Copy without the offset, for a client without recovery support.
    pub(crate) fn without_offset(self: &Arc<Self>) -> Arc<Self> {
        if self.recovery_offset == 0 {
            return Arc::clone(self);
        }
        let plain = || {
            let text = ServerFrames(&self.wire)
                .next()
                .map_or(&[][..], |(_, text)| text);
            // The offset is the last argument and contains no comma.
            let end = text.iter().rposition(|byte| *byte == b',');
            let event = &text[..end.unwrap_or(text.len())];
            Arc::new(Self::encode_packet(event.len() + 1, &[], |out| {
                out.extend_from_slice(event);
                out.push(b']');
            }))
        };
        Arc::clone(self.without_offset.get_or_init(plain))
    }

    /// Number of bytes that the packet adds to a polling body.
    pub(crate) fn polling_len(&self) -> usize {
        ServerFrames(&self.wire)
            .map(|(opcode, payload)| match opcode {
                Opcode::Binary => 1 + polling_binary_len(payload.len()),
                Opcode::Text => 1 + payload.len(),
                _ => 0,
            })
            .sum()
    }

    /// Appends the packet to a polling body.
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

/// Iterator over frames that this server has encoded.
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
