//! What a client is sent: whole frames without a mask, head and payload in one piece of memory.

use super::Opcode;
use bytes::Bytes;

/// The longest head of a frame without a mask.
pub const MAX_SERVER_HEADER_LEN: usize = 10;
/// What a close frame may say beside its code.
const MAX_CLOSE_REASON_LEN: usize = 123;

/// A frame and where its payload begins, so that the payload can be had without its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// Head and payload.
    pub bytes: Bytes,
    /// How long the head is.
    pub head: usize,
}

impl Built {
    /// The payload alone, in the same memory.
    #[must_use]
    pub fn payload(&self) -> Bytes {
        self.bytes.slice(self.head..)
    }
}

/// A text message. The caller vouches that it is UTF-8.
#[must_use]
pub fn text(payload: &[u8]) -> Bytes {
    encode_frame(Opcode::Text, payload)
}

/// A binary message.
#[must_use]
pub fn encode_binary(payload: &[u8]) -> Bytes {
    encode_frame(Opcode::Binary, payload)
}

/// The answer to a ping.
#[must_use]
pub fn encode_pong(payload: &[u8]) -> Bytes {
    encode_frame(Opcode::Pong, payload)
}

/// The end, with its code and a reason, which is cut to what fits.
#[must_use]
pub fn encode_close(code: u16, reason: &str) -> Bytes {
    let reason = &reason[..reason.floor_char_boundary(MAX_CLOSE_REASON_LEN)];
    let mut payload = Vec::with_capacity(2 + reason.len());
    payload.extend_from_slice(&code.to_be_bytes());
    payload.extend_from_slice(reason.as_bytes());
    encode_frame(Opcode::Close, &payload)
}

/// A whole frame of any kind.
#[must_use]
pub fn encode_frame(opcode: Opcode, payload: &[u8]) -> Bytes {
    let (head, len) = encode_header(opcode, payload.len());
    let mut all = Vec::with_capacity(len + payload.len());
    all.extend_from_slice(&head[..len]);
    all.extend_from_slice(payload);
    all.into()
}

/// A frame whose payload is written by `fill`, about `capacity` bytes.
pub fn encode_frame_with(
    opcode: Opcode,
    capacity: usize,
    fill: impl FnOnce(&mut Vec<u8>),
) -> Built {
    let mut all = Vec::with_capacity(MAX_SERVER_HEADER_LEN + capacity);
    all.extend_from_slice(&[0; MAX_SERVER_HEADER_LEN]);
    fill(&mut all);
    let (bytes, len) = encode_header(opcode, all.len() - MAX_SERVER_HEADER_LEN);
    // The head ends where the payload begins; what is unused lies before it.
    let begin = MAX_SERVER_HEADER_LEN - len;
    all[begin..MAX_SERVER_HEADER_LEN].copy_from_slice(&bytes[..len]);
    Built {
        bytes: Bytes::from(all).slice(begin..),
        head: len,
    }
}

/// The head of a whole frame and how many bytes of it count.
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
