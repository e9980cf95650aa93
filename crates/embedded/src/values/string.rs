//! String values. A 64-bit integer in canonical form is stored as a number, so a counter needs no allocation.

use std::ops::Deref;

use smallvec::SmallVec;

use super::SharedBytes;

/// A string value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StringValue {
    /// A number. The string is its decimal form.
    Int(i64),
    /// Any other bytes.
    Raw(SharedBytes),
}

impl StringValue {
    pub fn to_bytes(&self) -> StringBytes<'_> {
        match self {
            Self::Int(n) => StringBytes::Int(format_int(*n)),
            Self::Raw(blob) => StringBytes::Raw(blob),
        }
    }

    pub fn len(&self) -> usize {
        self.to_bytes().len()
    }

    /// The number, if the string is stored as one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            Self::Raw(_) => None,
        }
    }
}

/// Decimal form of an integer.
pub type IntDigits = SmallVec<[u8; 20]>;

/// Formats an integer without an allocation.
pub fn format_int(number: i64) -> IntDigits {
    IntDigits::from_slice(itoa::Buffer::new().format(number).as_bytes())
}

/// Bytes of a string value. The digits of a number are printed for this, because the value does not store them.
#[derive(Debug, Clone)]
pub enum StringBytes<'a> {
    /// Printed digits of a number.
    Int(IntDigits),
    /// Borrowed bytes of any other string.
    Raw(&'a [u8]),
}

impl Deref for StringBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Int(digits) => digits,
            Self::Raw(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for StringBytes<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<&[u8]> for StringValue {
    fn from(bytes: &[u8]) -> Self {
        parse_int(bytes).map_or_else(|| Self::Raw(bytes.into()), Self::Int)
    }
}

impl From<Vec<u8>> for StringValue {
    fn from(bytes: Vec<u8>) -> Self {
        parse_int(&bytes).map_or_else(|| Self::Raw(bytes.into()), Self::Int)
    }
}

/// Parses an integer in canonical form, which prints as the same bytes: no `+`, no leading zero, no blank.
pub fn parse_int(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    match digits {
        b"0" => return (digits.len() == bytes.len()).then_some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_is_a_number() {
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            " 1",
            "1 ",
            "1.0",
            "9223372036854775808",
            "a",
        ] {
            assert_eq!(parse_int(text.as_bytes()), None, "{text}");
        }
        for number in [0, 1, -1, 42, i64::MAX, i64::MIN] {
            assert_eq!(parse_int(number.to_string().as_bytes()), Some(number));
            let spelled = StringValue::Int(number).to_bytes().to_vec();
            assert_eq!(spelled, number.to_string().into_bytes());
        }
    }
}
