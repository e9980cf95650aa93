//! The head of a client's frame: two to fourteen bytes, checked as soon as the byte that is wrong is there.

use super::{Opcode, Violation};

/// The longest head: two bytes, a length of eight, a mask of four.
pub(super) const LONGEST: usize = 14;
/// What a control frame may carry.
pub(super) const CONTROL: usize = 125;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) last: bool,
    pub(super) opcode: Opcode,
    pub(super) key: [u8; 4],
    pub(super) length: u64,
}

/// The head at the front of `bytes` and how long it is, or `None` if it is not all there yet.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Header, usize)>, Violation> {
    let Some(&first) = bytes.first() else {
        return Ok(None);
    };
    if first & 0x70 != 0 {
        return Err(Violation::Protocol(
            "a reserved bit is set and no extension was agreed on",
        ));
    }
    let opcode = Opcode::of(first & 0x0f).ok_or(Violation::Protocol("reserved opcode"))?;
    let last = first & 0x80 != 0;
    if opcode.is_control() && !last {
        return Err(Violation::Protocol("fragmented control frame"));
    }
    let Some(&second) = bytes.get(1) else {
        return Ok(None);
    };
    if second & 0x80 == 0 {
        return Err(Violation::Protocol("frame of a client without a mask"));
    }
    let short = second & 0x7f;
    if opcode.is_control() && usize::from(short) > CONTROL {
        return Err(Violation::Protocol("control frame of more than 125 bytes"));
    }
    let Some((length, at)) = length(short, &bytes[2..])? else {
        return Ok(None);
    };
    let Some(key) = bytes.get(at..).and_then(<[u8]>::first_chunk) else {
        return Ok(None);
    };
    let header = Header {
        last,
        opcode,
        key: *key,
        length,
    };
    Ok(Some((header, at + key.len())))
}

/// The length of the payload and where the mask begins.
fn length(short: u8, rest: &[u8]) -> Result<Option<(u64, usize)>, Violation> {
    const LONG_FORM: Violation = Violation::Protocol("length not in its shortest form");
    match short {
        126 => {
            let Some(bytes) = rest.first_chunk() else {
                return Ok(None);
            };
            match u16::from_be_bytes(*bytes) {
                0..126 => Err(LONG_FORM),
                length => Ok(Some((length.into(), 4))),
            }
        }
        127 => {
            if rest.first().is_some_and(|byte| byte & 0x80 != 0) {
                return Err(Violation::Protocol("length with its highest bit set"));
            }
            let Some(bytes) = rest.first_chunk() else {
                return Ok(None);
            };
            match u64::from_be_bytes(*bytes) {
                0..0x1_0000 => Err(LONG_FORM),
                length => Ok(Some((length, 10))),
            }
        }
        short => Ok(Some((short.into(), 2))),
    }
}
