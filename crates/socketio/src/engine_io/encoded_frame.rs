//! Encoded packets: complete WebSocket frames, shared by all clients that receive them.
//!
//! Invariants:
//! 1. A packet for many clients of the main namespace is encoded once. Its copy without the offset is encoded once too.
//! 2. The bytes of a recoverable frame are charged to the memory budget until its last receiver has dropped it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::memory_budget::{MemoryBudget, MemoryCharge};
use crate::packet::engine_io::{append_binary_packet, append_text_packet, polling_binary_len};
use crate::websocket::{Opcode, encode_binary, encode_frame_with, encode_text};

/// A packet with its attachments, encoded as WebSocket frames. Polling extracts the payloads from the frames.
#[derive(Debug)]
pub(crate) struct EncodedFrame {
    bytes: Bytes,
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
    /// Encodes a packet whose text `write_text` appends, and its attachments. `text_capacity` is an estimate of
    /// the length of the text.
    pub(crate) fn encode_packet(
        text_capacity: usize,
        attachments: &[Bytes],
        write_text: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        let text = encode_frame_with(Opcode::Text, text_capacity, write_text);
        if attachments.is_empty() {
            return Self::from_bytes(text);
        }
        let mut bytes = Vec::from(text);
        for attachment in attachments {
            bytes.extend_from_slice(&encode_binary(attachment));
        }
        Self::from_bytes(bytes.into())
    }

    /// Wraps frames that are already encoded.
    pub(crate) fn from_bytes(bytes: Bytes) -> Self {
        Self {
            bytes,
            recovery_offset: 0,
            created_at_secs: 0,
            charge: None,
            without_offset: OnceLock::new(),
        }
    }

    /// Makes the frame recoverable and charges its bytes to the memory budget.
    pub(crate) fn into_recoverable(
        mut self,
        recovery_offset: u64,
        created_at_secs: u32,
        budget: &MemoryBudget,
    ) -> Self {
        self.charge = Some(budget.charge(self.bytes.len()));
        Self {
            recovery_offset,
            created_at_secs,
            ..self
        }
    }

    /// Encodes a text message.
    pub(crate) fn from_text(text: &str) -> Arc<Self> {
        Arc::new(Self::from_bytes(encode_text(text.as_bytes())))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Copies a packet of the main namespace for another namespace. Each socket there gets a copy of its own.
    pub(crate) fn for_namespace(&self, namespace: &str) -> Self {
        let mut frames = ServerFrames(&self.bytes);
        let Some((_, text)) = frames.next() else {
            return Self::from_bytes(self.bytes.clone());
        };
        // The namespace follows the packet type, `42`, or the number of attachments, `451-`.
        let at = match text.get(1) {
            Some(b'5' | b'6') => text
                .iter()
                .position(|byte| *byte == b'-')
                .map_or(2, |at| at + 1),
            _ => 2,
        };
        let (packet_type, rest) = text.split_at(at.min(text.len()));
        let first = encode_frame_with(Opcode::Text, text.len() + namespace.len() + 1, |out| {
            out.extend_from_slice(packet_type);
            out.extend_from_slice(namespace.as_bytes());
            out.push(b',');
            out.extend_from_slice(rest);
        });
        let bytes = if frames.0.is_empty() {
            first
        } else {
            [&first[..], frames.0].concat().into()
        };
        let charge = self
            .charge
            .as_ref()
            .map(|charge| charge.charge_same_budget(bytes.len()));
        Self {
            bytes,
            charge,
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
        let encode = || {
            let text = ServerFrames(&self.bytes)
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
        Arc::clone(self.without_offset.get_or_init(encode))
    }

    /// Number of bytes that the packet adds to a polling body.
    pub(crate) fn polling_len(&self) -> usize {
        ServerFrames(&self.bytes)
            .map(|(opcode, payload)| match opcode {
                Opcode::Binary => 1 + polling_binary_len(payload.len()),
                Opcode::Text => 1 + payload.len(),
                _ => 0,
            })
            .sum()
    }

    /// Appends the packet to a polling body.
    pub(crate) fn append_to_polling_body(&self, body: &mut Vec<u8>) {
        for (opcode, payload) in ServerFrames(&self.bytes) {
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
        let (&[first, len7], rest) = self.0.split_first_chunk()?;
        let (length, rest) = match len7 {
            126 => {
                let (length, rest) = rest.split_first_chunk()?;
                (u16::from_be_bytes(*length).into(), rest)
            }
            127 => {
                let (length, rest) = rest.split_first_chunk()?;
                (usize::try_from(u64::from_be_bytes(*length)).ok()?, rest)
            }
            len7 => (len7.into(), rest),
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
