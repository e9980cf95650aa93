//! Encodes complete server frames, without a mask; header and payload share one allocation.

use super::Opcode;
use bytes::Bytes;

/// Longest header of a server frame.
pub const MAX_SERVER_HEADER_LEN: usize = 10;
/// Longest reason of a close frame: 125 bytes less the status code.
const MAX_CLOSE_REASON_LEN: usize = 123;

/// Encoded frame and the length of its header, so that the payload can be read without the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// Header and payload.
    pub bytes: Bytes,
    /// Length of the header.
    pub head: usize,
}

impl Built {
    /// The payload; shares the memory of the frame.
    #[must_use]
    pub fn payload(&self) -> Bytes {
        self.bytes.slice(self.head..)
    }
}

/// Encodes a text message. The caller guarantees that `payload` is UTF-8.
#[must_use]
pub fn text(payload: &[u8]) -> Bytes {
    encode_frame(Opcode::Text, payload)
}

/// Encodes a binary message.
#[must_use]
pub fn encode_binary(payload: &[u8]) -> Bytes {
    encode_frame(Opcode::Binary, payload)
}

/// Encodes the answer to a ping.
#[must_use]
pub fn encode_pong(payload: &[u8]) -> Bytes {
    encode_frame(Opcode::Pong, payload)
}

/// Encodes a close frame. A reason that is too long is truncated.
#[must_use]
pub fn encode_close(code: u16, reason: &str) -> Bytes {
    let reason = &reason[..reason.floor_char_boundary(MAX_CLOSE_REASON_LEN)];
    let mut payload = Vec::with_capacity(2 + reason.len());
    payload.extend_from_slice(&code.to_be_bytes());
    payload.extend_from_slice(reason.as_bytes());
    encode_frame(Opcode::Close, &payload)
}

/// Encodes a complete frame.
#[must_use]
pub fn encode_frame(opcode: Opcode, payload: &[u8]) -> Bytes {
    let (head, len) = encode_header(opcode, payload.len());
    let mut all = Vec::with_capacity(len + payload.len());
    all.extend_from_slice(&head[..len]);
    all.extend_from_slice(payload);
    all.into()
}

/// Encodes a frame whose payload `write_payload` appends; `capacity` is an estimate of its length.
pub fn encode_frame_with(
    opcode: Opcode,
    capacity: usize,
    fill: impl FnOnce(&mut Vec<u8>),
) -> Built {
    let mut all = Vec::with_capacity(MAX_SERVER_HEADER_LEN + capacity);
    all.extend_from_slice(&[0; MAX_SERVER_HEADER_LEN]);
    fill(&mut all);
    let (bytes, len) = encode_header(opcode, all.len() - MAX_SERVER_HEADER_LEN);
    // The header is written directly before the payload; unused bytes before the header are cut off.
    let begin = MAX_SERVER_HEADER_LEN - len;
    all[begin..MAX_SERVER_HEADER_LEN].copy_from_slice(&bytes[..len]);
    Built {
        bytes: Bytes::from(all).slice(begin..),
        head: len,
    }
}

/// Encodes the header of an unfragmented frame. Returns it with its length.
#[must_use]
pub fn encode_header(opcode: Opcode, payload: usize) -> ([u8; MAX_SERVER_HEADER_LEN], usize) {
    let mut head = [0; MAX_SERVER_HEADER_LEN];
    head[0] = 0x80 | opcode.to_bits();
    let len = if let (Ok(short), true) = (u8::try_from(payload), payload < 126) {
        head[1] = short;
        2
    } else if let Ok(middle) = u16::try_from(payload) {
        head[1] = 126;
        head[2..4].copy_from_slice(&middle.to_be_bytes());
        4
    } else {
        head[1] = 127;
        head[2..].copy_from_slice(&(payload as u64).to_be_bytes());
        10
    };
    (head, len)
}
