//! Pages of lists: how many, and from where on.
//!
//! Always true: a cursor is what an answer gave; what it says is nobody's business, and one that was made up is refused.

use crate::error::{Error, Result};

/// Entries on a page, if nothing is said.
const USUAL: u64 = 50;
/// Most entries on a page.
pub(super) const MOST: u64 = 100;

/// How many entries a page has.
pub(super) fn limit(asked: Option<u64>) -> Result<u64> {
    match asked {
        None => Ok(USUAL),
        Some(limit @ 1..=MOST) => Ok(limit),
        Some(other) => Err(Error::InvalidRequest(format!(
            "`limit` is {other}, ask for 1 to {MOST}"
        ))),
    }
}

/// The cursor that says this: it can stand in an address as it is.
pub(super) fn cursor(text: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let nibbles = text.bytes().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles
        .map(|nibble| char::from(HEX[usize::from(nibble)]))
        .collect()
}

/// What a cursor says.
pub(super) fn said(cursor: &str) -> Result<String> {
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
        .ok_or_else(unknown)
}

/// The refusal of a cursor that no answer gave.
pub(super) fn unknown() -> Error {
    Error::InvalidRequest(
        "`cursor` is none that an answer gave; leave it out for the first page".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_says_what_it_was_made_of() {
        for text in ["", "1763222222000 c1", "a+b=c|d"] {
            assert_eq!(said(&cursor(text)).expect("it was made here"), text);
        }
        for wrong in ["a", "zz", "ff", "+1", "é"] {
            assert!(said(wrong).is_err(), "{wrong}");
        }
    }
}
