//! Strings. What looks like a 64-bit integer is kept as one, so that a counter costs no allocation.

use std::borrow::Cow;

use super::Blob;

/// A string value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// Exactly the decimal form of this number.
    Int(i64),
    /// Anything else.
    Raw(Blob),
}

impl Text {
    /// Its bytes.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Int(n) => Cow::Owned(n.to_string().into_bytes()),
            Self::Raw(blob) => Cow::Borrowed(blob),
        }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    /// The number it stands for.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            Self::Raw(_) => None,
        }
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Self {
        parse_int(bytes).map_or_else(|| Self::Raw(bytes.into()), Self::Int)
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        parse_int(&bytes).map_or_else(|| Self::Raw(bytes.into()), Self::Int)
    }
}

/// A number in the one form that turns back into the same bytes: no `+`, no leading zero, no blank.
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
    use super::parse_int;

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
        }
    }
}
