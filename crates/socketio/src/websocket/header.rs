//! Header of a client frame: 2 to 14 bytes. An invalid byte is rejected as soon as it arrives.

use super::{FrameError, Opcode};

/// Longest header of a client frame: 2 bytes, 8 bytes of payload length, 4 bytes of masking key.
pub(super) const MAX_CLIENT_HEADER_LEN: usize = 14;
/// Maximum payload of a control frame.
pub(super) const MAX_CONTROL_PAYLOAD: usize = 125;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) fin: bool,
    pub(super) opcode: Opcode,
    pub(super) masking_key: [u8; 4],
    pub(super) payload_len: u64,
}

/// Parses the header at the front of `bytes`. Returns it with its length, or `None` if it is incomplete.
pub(super) fn parse_client_header(
    bytes: &[u8],
) -> Result<Option<(FrameHeader, usize)>, FrameError> {
    let Some(&first) = bytes.first() else {
        return Ok(None);
    };
    if first & 0x70 != 0 {
        return Err(FrameError::Protocol(
            "a reserved bit is set and no extension was agreed on",
        ));
    }
    let opcode = Opcode::from_bits(first & 0x0f).ok_or(FrameError::Protocol("reserved opcode"))?;
    let fin = first & 0x80 != 0;
    if opcode.is_control() && !fin {
        return Err(FrameError::Protocol("fragmented control frame"));
    }
    let Some(&second) = bytes.get(1) else {
        return Ok(None);
    };
    if second & 0x80 == 0 {
        return Err(FrameError::Protocol("client frame without a mask"));
    }
    let len7 = second & 0x7f;
    if opcode.is_control() && usize::from(len7) > MAX_CONTROL_PAYLOAD {
        return Err(FrameError::Protocol("control frame of more than 125 bytes"));
    }
    let Some((payload_len, key_offset)) = parse_payload_len(len7, &bytes[2..])? else {
        return Ok(None);
    };
    let Some(masking_key) = bytes.get(key_offset..).and_then(<[u8]>::first_chunk) else {
        return Ok(None);
    };
    let header = FrameHeader {
        fin,
        opcode,
        masking_key: *masking_key,
        payload_len,
    };
    Ok(Some((header, key_offset + masking_key.len())))
}

/// Returns the payload length and the offset of the masking key.
fn parse_payload_len(len7: u8, rest: &[u8]) -> Result<Option<(u64, usize)>, FrameError> {
    const NON_MINIMAL_LENGTH: FrameError = FrameError::Protocol("length not in its shortest form");
    match len7 {
        126 => {
            let Some(bytes) = rest.first_chunk() else {
                return Ok(None);
            };
            match u16::from_be_bytes(*bytes) {
                0..126 => Err(NON_MINIMAL_LENGTH),
                length => Ok(Some((length.into(), 4))),
            }
        }
        127 => {
            if rest.first().is_some_and(|byte| byte & 0x80 != 0) {
                return Err(FrameError::Protocol("length with its highest bit set"));
            }
            let Some(bytes) = rest.first_chunk() else {
                return Ok(None);
            };
            match u64::from_be_bytes(*bytes) {
                0..0x1_0000 => Err(NON_MINIMAL_LENGTH),
                length => Ok(Some((length, 10))),
            }
        }
        len7 => Ok(Some((len7.into(), 2))),
    }
}
