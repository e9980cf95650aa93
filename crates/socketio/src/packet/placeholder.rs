//! The places in a packet's JSON where its attachments belong: `{"_placeholder":true,"num":0}`.
//! Values are walked, not built; nesting is bounded by serde_json's limit of 128.

use super::socket::Malformed;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Checks that every placeholder in a binary packet's JSON stands for one of its attachments.
///
/// # Errors
/// One does not, or the JSON is none.
pub fn check(data: &str, attachments: usize) -> Result<(), Malformed> {
    walk(data, attachments)
        .map(|_| ())
        .map_err(|_| Malformed::Placeholder)
}

/// The number of the attachment that this value stands for, if it is a placeholder.
#[must_use]
pub fn number(value: &str) -> Option<usize> {
    match walk(value, usize::MAX) {
        Ok(Seen::Placeholder(number)) => Some(number),
        _ => None,
    }
}

fn walk(data: &str, attachments: usize) -> serde_json::Result<Seen> {
    let mut reader = serde_json::Deserializer::from_str(data);
    let seen = Walk { attachments }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(seen)
}

/// What a value was, as far as a placeholder has need of it.
#[derive(Clone, Copy)]
enum Seen {
    True,
    Number(u64),
    Placeholder(usize),
    Other,
}

#[derive(Clone, Copy)]
struct Walk {
    attachments: usize,
}

impl<'de> DeserializeSeed<'de> for Walk {
    type Value = Seen;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Seen, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk {
    type Value = Seen;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Seen, E> {
        Ok(if value { Seen::True } else { Seen::Other })
    }

    fn visit_u64<E>(self, value: u64) -> Result<Seen, E> {
        Ok(Seen::Number(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Seen, E> {
        Ok(Seen::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Seen, E> {
        Ok(Seen::Other)
    }

    fn visit_str<E>(self, _: &str) -> Result<Seen, E> {
        Ok(Seen::Other)
    }

    fn visit_unit<E>(self) -> Result<Seen, E> {
        Ok(Seen::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Seen, A::Error> {
        while seq.next_element_seed(self)?.is_some() {}
        Ok(Seen::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Seen, A::Error> {
        let mut marked = false;
        let mut number = None;
        while let Some(key) = map.next_key_seed(KeySeed)? {
            match (key, map.next_value_seed(self)?) {
                (Key::Mark, seen) => marked = matches!(seen, Seen::True),
                (Key::Number, Seen::Number(n)) => number = usize::try_from(n).ok(),
                _ => {}
            }
        }
        match number {
            _ if !marked => Ok(Seen::Other),
            Some(number) if number < self.attachments => Ok(Seen::Placeholder(number)),
            _ => Err(A::Error::custom("placeholder of an unknown attachment")),
        }
    }
}

enum Key {
    Mark,
    Number,
    Other,
}

struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Key, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Key, E> {
        Ok(match key {
            "_placeholder" => Key::Mark,
            "num" => Key::Number,
            _ => Key::Other,
        })
    }
}
