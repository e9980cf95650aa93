//! JSON array of an event or an ack: validated in one pass, returned as slices, no values are built.

use super::socket_io::SocketIoPacketError;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

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
    /// Name of the event; a number stays as its text.
    pub name: Cow<'a, str>,
    /// JSON text of the first argument.
    pub first_arg: Option<&'a str>,
    /// JSON text of all arguments, separated by commas, without brackets.
    pub args: &'a str,
}

/// Validated array.
struct JsonArray<'a> {
    /// Text between the brackets, trimmed.
    inner: &'a str,
    first: Option<&'a str>,
    second: Option<&'a str>,
}

/// Parses the payload of an EVENT packet.
pub(super) fn parse_event_payload(json: &str) -> Result<EventPayload<'_>, SocketIoPacketError> {
    let array = parse_array(json)?;
    let raw = array.first.ok_or(SocketIoPacketError::InvalidPayload)?;
    let name = match raw.as_bytes() {
        [b'"', ..] => parse_event_name(raw)?,
        [b'-' | b'0'..=b'9', ..] => Cow::Borrowed(raw),
        _ => return Err(SocketIoPacketError::InvalidPayload),
    };
    if RESERVED_EVENT_NAMES.contains(&&*name) {
        return Err(SocketIoPacketError::ReservedEventName);
    }
    let after_name = array.inner[raw.len()..].trim_start();
    Ok(EventPayload {
        name,
        first_arg: array.second,
        args: after_name
            .strip_prefix(',')
            .unwrap_or(after_name)
            .trim_start(),
    })
}

/// Parses the payload of an ACK packet. Returns the text between the brackets.
pub(super) fn parse_ack_payload(json: &str) -> Result<&str, SocketIoPacketError> {
    parse_array(json).map(|array| array.inner)
}

fn parse_event_name(raw: &str) -> Result<Cow<'_, str>, SocketIoPacketError> {
    // `raw` is a validated JSON string, so it has quotes. Most names contain no escape and are used without a copy.
    let inner = &raw[1..raw.len() - 1];
    if inner.contains('\\') {
        serde_json::from_str(raw)
            .map(Cow::Owned)
            .map_err(|_| SocketIoPacketError::InvalidPayload)
    } else {
        Ok(Cow::Borrowed(inner))
    }
}

/// Validates the JSON of a packet; no other function validates it again.
fn parse_array(json: &str) -> Result<JsonArray<'_>, SocketIoPacketError> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let (first, second) = reader
        .deserialize_seq(ArrayVisitor)
        .map_err(|_| SocketIoPacketError::InvalidPayload)?;
    reader
        .end()
        .map_err(|_| SocketIoPacketError::InvalidPayload)?;
    let inner = json
        .trim()
        .strip_prefix('[')
        .and_then(|it| it.strip_suffix(']'))
        .ok_or(SocketIoPacketError::InvalidPayload)?;
    Ok(JsonArray {
        inner: inner.trim(),
        first,
        second,
    })
}

/// Returns the first two elements and skips the others.
struct ArrayVisitor;

impl<'de> Visitor<'de> for ArrayVisitor {
    type Value = (Option<&'de str>, Option<&'de str>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let first = seq.next_element::<&'de RawValue>()?.map(RawValue::get);
        let second = seq.next_element::<&'de RawValue>()?.map(RawValue::get);
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok((first, second))
    }
}
