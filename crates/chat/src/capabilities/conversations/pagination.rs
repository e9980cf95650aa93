//! Pagination: page sizes and cursors.
//!
//! Invariant: a cursor is opaque to clients; a text that cannot be decoded is rejected.

use crate::api::error::{Error, Result};

/// Page size if the request has no `limit`.
const DEFAULT_PAGE_SIZE: u64 = 50;
/// Maximum page size.
pub(super) const MAX_PAGE_SIZE: u64 = 100;

/// Validates the requested page size.
pub(super) fn page_size(asked: Option<u64>) -> Result<u64> {
    match asked {
        None => Ok(DEFAULT_PAGE_SIZE),
        Some(limit @ 1..=MAX_PAGE_SIZE) => Ok(limit),
        Some(other) => Err(Error::InvalidRequest(format!(
            "`limit` is {other}, ask for 1 to {MAX_PAGE_SIZE}"
        ))),
    }
}

/// Encodes a cursor. The result needs no escaping in a URL.
pub(super) fn encode_cursor(text: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let nibbles = text.bytes().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles
        .map(|nibble| char::from(HEX[usize::from(nibble)]))
        .collect()
}

/// Decodes a cursor.
pub(super) fn decode_cursor(cursor: &str) -> Result<String> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let bytes: Option<Vec<u8>> = cursor
        .as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
            _ => None,
        })
        .collect();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(invalid_cursor)
}

/// Error for a cursor that no reply contained.
pub(super) fn invalid_cursor() -> Error {
    Error::InvalidRequest(
        "`cursor` is invalid; use the `nextCursor` of a reply, or no cursor for the first page"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_says_what_it_was_made_of() {
        for text in ["", "1763222222000 c1", "a+b=c|d"] {
            assert_eq!(
                decode_cursor(&encode_cursor(text))
                    .expect("a cursor from `encode_cursor` can be decoded"),
                text
            );
        }
        for wrong in ["a", "zz", "ff", "+1", "é"] {
            assert!(decode_cursor(wrong).is_err(), "{wrong}");
        }
    }
}
