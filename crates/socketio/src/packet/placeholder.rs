//! Placeholders mark where the attachments belong in the JSON of a packet: `{"_placeholder":true,"num":0}`. JSON values
//! are visited, not built; serde_json limits the nesting to 128.

use super::socket_io::SocketIoPacketError;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Checks that every placeholder in the JSON of a binary packet refers to one of its attachments.
///
/// # Errors
/// A placeholder refers to an unknown attachment, or the text is not JSON.
pub fn check_placeholders(json: &str, attachments: usize) -> Result<(), SocketIoPacketError> {
    visit_value(json, attachments)
        .map(|_| ())
        .map_err(|_| SocketIoPacketError::UnknownPlaceholder)
}

fn visit_value(json: &str, attachments: usize) -> serde_json::Result<VisitedValue> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let value = PlaceholderVisitor { attachments }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Kind of a visited value, as far as it matters for a placeholder.
#[derive(Clone, Copy)]
enum VisitedValue {
    True,
    Number(u64),
    Other,
}

#[derive(Clone, Copy)]
struct PlaceholderVisitor {
    attachments: usize,
}

impl<'de> DeserializeSeed<'de> for PlaceholderVisitor {
    type Value = VisitedValue;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<VisitedValue, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PlaceholderVisitor {
    type Value = VisitedValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<VisitedValue, E> {
        Ok(if value {
            VisitedValue::True
        } else {
            VisitedValue::Other
        })
    }

    fn visit_u64<E>(self, value: u64) -> Result<VisitedValue, E> {
        Ok(VisitedValue::Number(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<VisitedValue, E> {
        Ok(VisitedValue::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<VisitedValue, E> {
        Ok(VisitedValue::Other)
    }

    fn visit_str<E>(self, _: &str) -> Result<VisitedValue, E> {
        Ok(VisitedValue::Other)
    }

    fn visit_unit<E>(self) -> Result<VisitedValue, E> {
        Ok(VisitedValue::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<VisitedValue, A::Error> {
        while seq.next_element_seed(self)?.is_some() {}
        Ok(VisitedValue::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<VisitedValue, A::Error> {
        let mut is_placeholder = false;
        let mut number = None;
        while let Some(key) = map.next_key_seed(PlaceholderKeySeed)? {
            match (key, map.next_value_seed(self)?) {
                (PlaceholderKey::Placeholder, value) => {
                    is_placeholder = matches!(value, VisitedValue::True);
                }
                (PlaceholderKey::Number, VisitedValue::Number(n)) => {
                    number = usize::try_from(n).ok();
                }
                _ => {}
            }
        }
        if is_placeholder && number.is_none_or(|number| number >= self.attachments) {
            return Err(A::Error::custom("placeholder of an unknown attachment"));
        }
        Ok(VisitedValue::Other)
    }
}

enum PlaceholderKey {
    Placeholder,
    Number,
    Other,
}

struct PlaceholderKeySeed;

impl<'de> DeserializeSeed<'de> for PlaceholderKeySeed {
    type Value = PlaceholderKey;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<PlaceholderKey, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for PlaceholderKeySeed {
    type Value = PlaceholderKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<PlaceholderKey, E> {
        Ok(match key {
            "_placeholder" => PlaceholderKey::Placeholder,
            "num" => PlaceholderKey::Number,
            _ => PlaceholderKey::Other,
        })
    }
}
