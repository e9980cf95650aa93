//! Pagination: page sizes and cursors.
//!
//! Invariant: a cursor is opaque to clients; a text that cannot be decoded is rejected.

use crate::api::error::{Error, Result};

/// Validates the requested number of items in a page.
pub(crate) fn page_size(requested: Option<u64>, default: u64, max: u64) -> Result<u64> {
    let size = requested.unwrap_or(default);
    if !(1..=max).contains(&size) {
        let text = format!("`limit` is {size}, ask for 1 to {max}");
        return Err(Error::InvalidRequest(text));
    }
    Ok(size)
}

/// Cuts `rows`, which were read with a limit of `size + 1`, to a page. Returns the cursor of the next page if there is
/// one; `position` is the text from which the next page continues after a row.
pub(crate) fn cut_page<T>(
    rows: &mut Vec<T>,
    size: u64,
    position: impl FnOnce(&T) -> String,
) -> Option<String> {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let has_more = rows.len() > size;
    rows.truncate(size);
    let last = rows.last().filter(|_| has_more)?;
    // Hexadecimal text needs no escaping in a URL.
    Some(hex::encode(position(last)))
}

/// Decodes a cursor to the position that it was made from.
pub(crate) fn decode_cursor(cursor: &str) -> Result<String> {
    let position = hex::decode(cursor).map_err(|_| invalid_cursor())?;
    String::from_utf8(position).map_err(|_| invalid_cursor())
}

/// Error for a cursor that no reply contained.
pub(crate) fn invalid_cursor() -> Error {
    Error::InvalidRequest(
        "`cursor` is invalid; use the `nextCursor` of a reply, or no cursor for the first page"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_decoded_to_the_position_that_it_was_made_from() {
        for text in ["", "1763222222000 c1", "a+b=c|d"] {
            let mut rows = vec![text, "next"];
            let cursor = cut_page(&mut rows, 1, |row| (*row).to_owned());
            let cursor = cursor.expect("there is another page");
            let position = decode_cursor(&cursor).expect("the cursor of a page can be decoded");
            assert_eq!(position, text);
            assert_eq!(rows, [text]);
        }
        for wrong in ["a", "zz", "ff", "+1", "é"] {
            assert!(decode_cursor(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_page_has_no_cursor() {
        for mut rows in [vec![], vec!["a"], vec!["a", "b"]] {
            assert_eq!(cut_page(&mut rows, 2, |row| (*row).to_owned()), None);
        }
    }
}
