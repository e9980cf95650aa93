//! Splits a JSON text into tokens as lua-cjson does.

use crate::scripting::script_error::ScriptError;

pub(super) enum JsonTokenKind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Bad(&'static str),
}

pub(super) struct JsonToken {
    pub kind: JsonTokenKind,
    pub at: usize,
}

impl JsonToken {
    /// Error that this token was found where another was expected.
    pub fn expected_error(&self, wanted: &str) -> ScriptError {
        let found = match self.kind {
            JsonTokenKind::ObjectBegin => "T_OBJ_BEGIN",
            JsonTokenKind::ObjectEnd => "T_OBJ_END",
            JsonTokenKind::ArrayBegin => "T_ARR_BEGIN",
            JsonTokenKind::ArrayEnd => "T_ARR_END",
            JsonTokenKind::String(_) => "T_STRING",
            JsonTokenKind::Number(_) => "T_NUMBER",
            JsonTokenKind::Boolean(_) => "T_BOOLEAN",
            JsonTokenKind::Null => "T_NULL",
            JsonTokenKind::Colon => "T_COLON",
            JsonTokenKind::Comma => "T_COMMA",
            JsonTokenKind::End => "T_END",
            JsonTokenKind::Bad(why) => why,
        };
        ScriptError::library(format!(
            "Expected {wanted} but found {found} at character {}",
            self.at + 1
        ))
    }
}

/// Splits a text into tokens.
pub(super) struct JsonLexer<'a> {
    text: &'a [u8],
    at: usize,
    /// Whether to accept NaN, infinities and hexadecimal numbers.
    invalid_numbers: bool,
}

impl<'a> JsonLexer<'a> {
    pub fn new(text: &'a [u8], invalid_numbers: bool) -> Self {
        Self {
            text,
            at: 0,
            invalid_numbers,
        }
    }

    /// Number of bytes that were read.
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn next(&mut self) -> JsonToken {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let at = self.at;
        let Some(&byte) = self.text.get(at) else {
            return JsonToken {
                kind: JsonTokenKind::End,
                at,
            };
        };
        let (kind, length) = match byte {
            b'{' => (JsonTokenKind::ObjectBegin, 1),
            b'}' => (JsonTokenKind::ObjectEnd, 1),
            b'[' => (JsonTokenKind::ArrayBegin, 1),
            b']' => (JsonTokenKind::ArrayEnd, 1),
            b':' => (JsonTokenKind::Colon, 1),
            b',' => (JsonTokenKind::Comma, 1),
            // lua-cjson sees a C string, which ends at a zero byte.
            0 => (JsonTokenKind::End, 0),
            b'"' => return self.string(),
            _ => self.literal_or_number(byte),
        };
        self.at += length;
        JsonToken { kind, at }
    }

    /// A number, or one of the literals `true`, `false` and `null`.
    fn literal_or_number(&self, byte: u8) -> (JsonTokenKind, usize) {
        let rest = &self.text[self.at..];
        if matches!(byte, b'-' | b'+') || byte.is_ascii_digit() {
            if !self.invalid_numbers && is_invalid_number(rest) {
                return (JsonTokenKind::Bad("invalid number"), 0);
            }
            return parse_number(rest);
        }
        for (word, kind) in [
            ("true", JsonTokenKind::Boolean(true)),
            ("false", JsonTokenKind::Boolean(false)),
            ("null", JsonTokenKind::Null),
        ] {
            if rest.starts_with(word.as_bytes()) {
                return (kind, word.len());
            }
        }
        match self.invalid_numbers && is_invalid_number(rest) {
            true => parse_number(rest),
            false => (JsonTokenKind::Bad("invalid token"), 0),
        }
    }

    fn string(&mut self) -> JsonToken {
        let start = self.at;
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\' | 0))
                .unwrap_or(rest.len());
            text.extend(&rest[..plain]);
            self.at += plain;
            match rest.get(plain) {
                Some(b'"') => {
                    self.at += 1;
                    return JsonToken {
                        kind: JsonTokenKind::String(text),
                        at: start,
                    };
                }
                Some(b'\\') => {
                    if let Err(why) = self.escape(&mut text) {
                        return JsonToken {
                            kind: JsonTokenKind::Bad(why),
                            at: self.at,
                        };
                    }
                }
                _ => {
                    return JsonToken {
                        kind: JsonTokenKind::Bad("unexpected end of string"),
                        at: self.at,
                    };
                }
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), &'static str> {
        let rest = &self.text[self.at..];
        let byte = match rest.get(1) {
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'b') => 8,
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'f') => 12,
            Some(b'r') => b'\r',
            Some(b'u') => {
                let (letter, length) =
                    parse_unicode_escape(rest).ok_or("invalid unicode escape code")?;
                text.extend(letter.encode_utf8(&mut [0; 4]).as_bytes());
                self.at += length;
                return Ok(());
            }
            _ => return Err("invalid escape code"),
        };
        text.push(byte);
        self.at += 2;
        Ok(())
    }
}

/// Character that `\u` with four digits, or a surrogate pair of them, stands for, and the length of the escape.
fn parse_unicode_escape(text: &[u8]) -> Option<(char, usize)> {
    let unit = |text: &[u8]| {
        let digits = text.strip_prefix(b"\\u")?.get(..4)?;
        digits.iter().try_fold(0, |code, &digit| {
            Some(code << 4 | char::from(digit).to_digit(16)?)
        })
    };
    let first = unit(text)?;
    if first & 0xF800 != 0xD800 {
        return Some((char::from_u32(first)?, 6));
    }
    let second = unit(text.get(6..)?)?;
    if first & 0x400 != 0 || second & 0xFC00 != 0xDC00 {
        return None;
    }
    let code = 0x1_0000 + ((first & 0x3FF) << 10 | second & 0x3FF);
    Some((char::from_u32(code)?, 12))
}

/// Whether a text begins with a number that JSON does not allow: hexadecimal, with leading zeros, NaN or infinite.
fn is_invalid_number(text: &[u8]) -> bool {
    let text = match text {
        [b'-' | b'+', rest @ ..] => rest,
        _ => text,
    };
    match text {
        [b'0', second, ..] => matches!(second, b'x' | b'X' | b'0'..=b'9'),
        [first, ..] if *first <= b'9' => false,
        _ => {
            text.len() >= 3
                && (text[..3].eq_ignore_ascii_case(b"inf")
                    || text[..3].eq_ignore_ascii_case(b"nan"))
        }
    }
}

/// Parses a number as C's `strtod` does.
fn parse_number(text: &[u8]) -> (JsonTokenKind, usize) {
    let (negative, sign) = match text.first() {
        Some(b'-') => (true, 1),
        Some(b'+') => (false, 1),
        _ => (false, 0),
    };
    let rest = &text[sign..];
    let signed = |number: f64| if negative { -number } else { number };
    for (word, number) in [
        ("infinity", f64::INFINITY),
        ("inf", f64::INFINITY),
        ("nan", f64::NAN),
    ] {
        if rest.len() >= word.len() && rest[..word.len()].eq_ignore_ascii_case(word.as_bytes()) {
            return (JsonTokenKind::Number(signed(number)), sign + word.len());
        }
    }
    if let [b'0', b'x' | b'X', digits @ ..] = rest {
        let length = digits
            .iter()
            .take_while(|digit| digit.is_ascii_hexdigit())
            .count();
        let fold = |number: f64, digit: &u8| {
            number * 16.0 + f64::from(char::from(*digit).to_digit(16).unwrap_or(0))
        };
        if length > 0 {
            return (
                JsonTokenKind::Number(signed(digits[..length].iter().fold(0.0, fold))),
                sign + 2 + length,
            );
        }
    }
    let digits = |from: usize| {
        rest[from..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    let whole = digits(0);
    let mut end = whole;
    if rest.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if whole == 0 && end <= 1 {
        return (JsonTokenKind::Bad("invalid number"), 0);
    }
    if let Some(b'e' | b'E') = rest.get(end) {
        let sign = usize::from(matches!(rest.get(end + 1), Some(b'-' | b'+')));
        let exponent = digits((end + 1 + sign).min(rest.len()));
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    let parsed = std::str::from_utf8(&rest[..end])
        .ok()
        .and_then(|text| text.parse().ok());
    parsed.map_or((JsonTokenKind::Bad("invalid number"), 0), |number| {
        (JsonTokenKind::Number(signed(number)), sign + end)
    })
}
