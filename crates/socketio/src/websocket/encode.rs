//! Encodes complete server frames, without a mask; header and payload share one allocation.

use super::Opcode;
use bytes::Bytes;

/// Longest header of a server frame.
const MAX_SERVER_HEADER_LEN: usize = 10;
/// Longest reason of a close frame: 125 bytes less the status code.
const MAX_CLOSE_REASON_LEN: usize = 123;

/// Encodes a text message. The caller guarantees that `payload` is UTF-8.
pub fn encode_text(payload: &[u8]) -> Bytes {
    encode_frame(Opcode::Text, payload)
}

/// Encodes a binary message.
pub fn encode_binary(payload: &[u8]) -> Bytes {
    encode_frame(Opcode::Binary, payload)
}

/// Encodes the answer to a ping.
pub fn encode_pong(payload: &[u8]) -> Bytes {
    encode_frame(Opcode::Pong, payload)
}

/// Encodes a close frame. A reason that is too long is truncated.
pub fn encode_close(code: u16, reason: &str) -> Bytes {
    let reason = &reason[..reason.floor_char_boundary(MAX_CLOSE_REASON_LEN)];
    let mut payload = Vec::with_capacity(2 + reason.len());
    payload.extend_from_slice(&code.to_be_bytes());
    payload.extend_from_slice(reason.as_bytes());
    encode_frame(Opcode::Close, &payload)
}

/// Encodes a complete frame.
pub fn encode_frame(opcode: Opcode, payload: &[u8]) -> Bytes {
    encode_frame_with(opcode, payload.len(), |out| out.extend_from_slice(payload))
}

/// Encodes a frame whose payload `write_payload` appends; `capacity` is an estimate of its length.
pub fn encode_frame_with(
    opcode: Opcode,
    capacity: usize,
    write_payload: impl FnOnce(&mut Vec<u8>),
) -> Bytes {
    let mut frame = Vec::with_capacity(MAX_SERVER_HEADER_LEN + capacity);
    frame.extend_from_slice(&[0; MAX_SERVER_HEADER_LEN]);
    write_payload(&mut frame);
    let (header, header_len) = encode_header(opcode, frame.len() - MAX_SERVER_HEADER_LEN);
    // The header is written directly before the payload; unused bytes before the header are cut off.
    let begin = MAX_SERVER_HEADER_LEN - header_len;
    frame[begin..MAX_SERVER_HEADER_LEN].copy_from_slice(&header[..header_len]);
    Bytes::from(frame).slice(begin..)
}

/// Encodes the header of an unfragmented frame. Returns it with its length.
fn encode_header(opcode: Opcode, payload_len: usize) -> ([u8; MAX_SERVER_HEADER_LEN], usize) {
    let mut header = [0; MAX_SERVER_HEADER_LEN];
    header[0] = 0x80 | opcode as u8;
    let header_len = if let (Ok(len7), true) = (u8::try_from(payload_len), payload_len < 126) {
        header[1] = len7;
        2
    } else if let Ok(len16) = u16::try_from(payload_len) {
        header[1] = 126;
        header[2..4].copy_from_slice(&len16.to_be_bytes());
        4
    } else {
        header[1] = 127;
        header[2..].copy_from_slice(&(payload_len as u64).to_be_bytes());
        10
    };
    (header, header_len)
}
