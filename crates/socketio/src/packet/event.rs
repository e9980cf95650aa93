//! JSON array of an event or an ack: validated in one pass, returned as slices, no values are built.

use super::socket::SocketIoPacketError;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Number of elements whose slices are stored, including the name. Later elements are searched when they are requested.
const AT_HAND: usize = 4;
/// Event names that Socket.IO reserves for itself; no peer may send them.
const RESERVED_EVENT_NAMES: [&str; 6] = [
    "connect",
    "connect_error",
    "disconnect",
    "disconnecting",
    "newListener",
    "removeListener",
];

/// Name and arguments of an EVENT packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPayload<'a> {
    name: Cow<'a, str>,
    array: JsonArray<'a>,
}

impl<'a> EventPayload<'a> {
    /// Name of the event. A number is returned as its text.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// JSON text of an argument; 0 is the first one after the name.
    #[must_use]
    pub fn arg(&self, n: usize) -> Option<&'a str> {
        let n = n + 1;
        match self.array.leading_elements.get(n) {
            Some(known) => *known,
            None if n < self.array.count => nth(self.array.text, n),
            None => None,
        }
    }

    /// Number of arguments.
    #[must_use]
    pub fn count(&self) -> usize {
        self.array.count - 1
    }

    /// JSON text of all arguments, separated by commas, without brackets.
    #[must_use]
    pub fn args(&self) -> &'a str {
        let name = self.array.leading_elements[0].map_or(0, str::len);
        let rest = self.array.inner[name..].trim_start();
        rest.strip_prefix(',').unwrap_or(rest).trim_start()
    }
}

/// Validated array; `first` holds its first elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct JsonArray<'a> {
    text: &'a str,
    /// Text between the brackets, trimmed.
    inner: &'a str,
    count: usize,
    leading_elements: [Option<&'a str>; AT_HAND],
}

/// Parses the payload of an EVENT packet.
pub(super) fn parse_event_payload(data: &str) -> Result<EventPayload<'_>, SocketIoPacketError> {
    let array = parse_array(data)?;
    let raw = array.leading_elements[0].ok_or(SocketIoPacketError::Payload)?;
    let name = match raw.as_bytes() {
        [b'"', ..] => parse_event_name(raw)?,
        [b'-' | b'0'..=b'9', ..] => Cow::Borrowed(raw),
        _ => return Err(SocketIoPacketError::Payload),
    };
    if RESERVED_EVENT_NAMES.contains(&&*name) {
        return Err(SocketIoPacketError::Reserved);
    }
    Ok(EventPayload { name, array })
}

/// Parses the payload of an ACK packet. Returns the text between the brackets.
pub(super) fn parse_ack_payload(data: &str) -> Result<&str, SocketIoPacketError> {
    parse_array(data).map(|array| array.inner)
}

fn parse_event_name(raw: &str) -> Result<Cow<'_, str>, SocketIoPacketError> {
    // `raw` is a validated JSON string, so it has quotes. Most names contain no escape and are used without a copy.
    let inner = &raw[1..raw.len() - 1];
    if inner.contains('\\') {
        serde_json::from_str(raw)
            .map(Cow::Owned)
            .map_err(|_| SocketIoPacketError::Payload)
    } else {
        Ok(Cow::Borrowed(inner))
    }
}

/// Validates the JSON of a packet; no other function validates it again.
fn parse_array(data: &str) -> Result<JsonArray<'_>, SocketIoPacketError> {
    let mut reader = serde_json::Deserializer::from_str(data);
    let (count, first) = reader
        .deserialize_seq(ArrayVisitor)
        .map_err(|_| SocketIoPacketError::Payload)?;
    reader.end().map_err(|_| SocketIoPacketError::Payload)?;
    let inner = data
        .trim()
        .strip_prefix('[')
        .and_then(|it| it.strip_suffix(']'));
    Ok(JsonArray {
        text: data,
        inner: inner.ok_or(SocketIoPacketError::Payload)?.trim(),
        count,
        leading_elements: first,
    })
}

/// Finds an element of a validated array.
fn nth(data: &str, n: usize) -> Option<&str> {
    serde_json::Deserializer::from_str(data)
        .deserialize_seq(Nth(n))
        .ok()?
}

struct ArrayVisitor;

impl<'de> Visitor<'de> for ArrayVisitor {
    type Value = (usize, [Option<&'de str>; AT_HAND]);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut first = [None; AT_HAND];
        let mut count = 0;
        for place in &mut first {
            let Some(raw) = seq.next_element::<&'de RawValue>()? else {
                return Ok((count, first));
            };
            *place = Some(raw.get());
            count += 1;
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok((count, first))
    }
}

struct Nth(usize);

impl<'de> Visitor<'de> for Nth {
    type Value = Option<&'de str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        for _ in 0..self.0 {
            seq.next_element::<IgnoredAny>()?;
        }
        let found = seq.next_element::<&'de RawValue>()?.map(RawValue::get);
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}
