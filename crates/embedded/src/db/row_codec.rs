//! Encodes the numbers of list items and the scores of members as the bytes of a row.

use crate::values::SharedBytes;

/// Encodes the number of a list item as bytes that sort in the order of the numbers.
pub fn encode_item_number(number: i64) -> SharedBytes {
    SharedBytes::from((number.cast_unsigned() ^ 1 << 63).to_be_bytes())
}

/// Decodes the number that [`encode_item_number`] encoded.
pub fn decode_item_number(item: &[u8]) -> Option<i64> {
    let bytes: [u8; 8] = item.try_into().ok()?;
    Some((u64::from_be_bytes(bytes) ^ 1 << 63).cast_signed())
}

/// Encodes a score as the value of a row.
pub fn encode_score(score: f64) -> SharedBytes {
    SharedBytes::from(score.to_bits().to_be_bytes())
}

/// Decodes the score that [`encode_score`] encoded.
pub fn decode_score(value: &[u8]) -> Option<f64> {
    Some(f64::from_bits(u64::from_be_bytes(value.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_rows_sort_as_the_list() {
        let numbers = [i64::MIN, -300, -1, 0, 1, 255, 256, i64::MAX];
        assert!(numbers.map(encode_item_number).is_sorted());
        assert_eq!(
            numbers.map(|n| decode_item_number(&encode_item_number(n))),
            numbers.map(Some)
        );
    }
}
