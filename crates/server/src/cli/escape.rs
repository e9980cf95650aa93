//! Bytes as text for terminals and JSON. Keys and values may contain any bytes.

use serde_json::{Value, json};

/// Formats bytes as one line that is safe for a terminal and that [`unescape`] reads back: control characters,
/// backslashes and bytes that are not UTF-8 are escaped.
pub fn escape(bytes: &[u8]) -> String {
    text(bytes, |c| match c {
        '\\' => Some("\\\\".into()),
        '\n' => Some("\\n".into()),
        '\r' => Some("\\r".into()),
        '\t' => Some("\\t".into()),
        _ => control(c),
    })
}

/// Formats bytes as text that is safe for a terminal and keeps its line breaks and tabs.
pub fn escape_control_chars(bytes: &[u8]) -> String {
    text(bytes, |c| {
        if matches!(c, '\n' | '\t') {
            None
        } else {
            control(c)
        }
    })
}

/// A JSON string: the text as it is, or escaped if the bytes are not UTF-8.
pub fn to_json_text(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or_else(|_| json!(escape(bytes)), |text| json!(text))
}

/// Reverses [`escape`]. `None` if the text contains an escape that `escape` does not write.
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('\\') {
        bytes.extend(plain.as_bytes());
        let (byte, length) = match after.as_bytes().first()? {
            b'\\' => (b'\\', 1),
            b'n' => (b'\n', 1),
            b'r' => (b'\r', 1),
            b't' => (b'\t', 1),
            b'x' => (u8::from_str_radix(after.get(1..3)?, 16).ok()?, 3),
            _ => return None,
        };
        bytes.push(byte);
        rest = &after[length..];
    }
    bytes.extend(rest.as_bytes());
    Some(bytes)
}

fn control(c: char) -> Option<String> {
    let mut buffer = [0; 4];
    c.is_control()
        .then(|| c.encode_utf8(&mut buffer).bytes().map(hex).collect())
}

fn hex(byte: u8) -> String {
    format!("\\x{byte:02x}")
}

fn text(bytes: &[u8], escape_char: impl Fn(char) -> Option<String>) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match escape_char(c) {
                Some(escaped) => text += &escaped,
                None => text.push(c),
            }
        }
        text.extend(chunk.invalid().iter().copied().map(hex));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_bytes_are_escaped_in_terminal_output() {
        assert_eq!(escape("grün".as_bytes()), "grün");
        assert_eq!(escape(b"a\x1b[31m\xff\n\\"), r"a\x1b[31m\xff\n\\");
        assert_eq!(escape_control_chars(b"a\n\tb\x07"), "a\n\tb\\x07");
    }

    #[test]
    fn escaped_text_is_unescaped_to_the_same_bytes() {
        let every: Vec<u8> = (0..=255).chain("日本語\u{85}".bytes()).collect();
        assert_eq!(unescape(&escape(&every)), Some(every));
        for wrong in [r"\", r"\q", r"\x1", r"\xzz", "\\x日"] {
            assert_eq!(unescape(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn json_has_text_as_it_is_and_bytes_escaped() {
        assert_eq!(to_json_text(b"a\n"), json!("a\n"));
        assert_eq!(to_json_text(b"a\xff"), json!(r"a\xff"));
    }
}
