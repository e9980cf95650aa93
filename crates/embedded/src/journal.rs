//! What changed since the last flush, item by item and in order.
//!
//! Always true:
//! 1. Applying the effects of a batch in order to the state at its start gives the state at its end, but for values and
//!    deadlines that fleeting commands renewed, of which it has some earlier one, and for lists that are kept in memory only,
//!    of which it has nothing. Which other keys and items there are is exact.
//! 2. A batch is taken under the engine's lock between two commands, so it never holds half a script or transaction.
//! 3. Taking it is a swap of two pointers: the engine's pause does not grow with what changed.

use crate::value::{Blob, Kind, Score, Text, Value};

/// One change, as rows see it: a key has a header row, a collection has a row for each item.
#[derive(Debug, Clone)]
pub enum Effect {
    /// The key exists with this type and deadline; strings carry their value.
    Header {
        /// The key.
        key: Blob,
        /// Its type.
        kind: Kind,
        /// Its deadline.
        deadline: Option<u64>,
        /// The value of a string, nothing for a collection.
        text: Option<Text>,
    },
    /// The deadline of an existing key changed.
    Deadline {
        /// The key.
        key: Blob,
        /// Its deadline.
        deadline: Option<u64>,
    },
    /// A collection has this item.
    Item {
        /// The key.
        key: Blob,
        /// Field, member, or list number.
        item: Blob,
        /// Value or score.
        value: Blob,
    },
    /// A collection lost this item.
    DropItem {
        /// The key.
        key: Blob,
        /// Field, member, or list number.
        item: Blob,
    },
    /// The key is gone with all its items.
    Drop {
        /// The key.
        key: Blob,
    },
    /// All keys are gone.
    Clear,
}

impl Effect {
    /// The key that changes; none where all go.
    pub fn key(&self) -> Option<&Blob> {
        match self {
            Self::Header { key, .. }
            | Self::Deadline { key, .. }
            | Self::Item { key, .. }
            | Self::DropItem { key, .. }
            | Self::Drop { key } => Some(key),
            Self::Clear => None,
        }
    }

    fn size(&self) -> usize {
        let payload = match self {
            Self::Header {
                key,
                text: Some(Text::Raw(raw)),
                ..
            } => key.len() + raw.len(),
            Self::Header { key, .. } | Self::Deadline { key, .. } | Self::Drop { key } => key.len(),
            Self::Item { key, item, value } => key.len() + item.len() + value.len(),
            Self::DropItem { key, item } => key.len() + item.len(),
            Self::Clear => 0,
        };
        payload + size_of::<Self>()
    }
}

/// The effects since the last flush. Collects nothing for an engine that is not persisted.
#[derive(Debug, Default)]
pub struct Journal {
    on: bool,
    /// Whether the running command is fleeting.
    fleeting: bool,
    /// In chunks: one growing vector would be copied whole under the lock now and then.
    chunks: Vec<Vec<Effect>>,
    bytes: usize,
}

const CHUNK: usize = 1_024;

impl Journal {
    /// Starts to collect.
    pub fn switch_on(&mut self) {
        self.on = true;
    }

    /// Notes an effect.
    pub fn push(&mut self, effect: impl FnOnce() -> Effect) {
        if self.on {
            let effect = effect();
            self.bytes += effect.size();
            match self.chunks.last_mut() {
                Some(chunk) if chunk.len() < CHUNK => chunk.push(effect),
                _ => self.chunks.push(start_chunk(effect)),
            }
        }
    }

    /// Says whether what the commands from here on renew need not be kept.
    pub fn set_fleeting(&mut self, fleeting: bool) {
        self.fleeting = fleeting;
    }

    /// Notes that an item or a string that is there has another value, or a key another deadline.
    pub fn renew(&mut self, effect: impl FnOnce() -> Effect) {
        if !self.fleeting {
            self.push(effect);
        }
    }

    /// About how much memory the effects hold.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Hands over what was collected.
    pub fn take(&mut self) -> Vec<Vec<Effect>> {
        self.bytes = 0;
        std::mem::take(&mut self.chunks)
    }
}

fn start_chunk(first: Effect) -> Vec<Effect> {
    let mut chunk = Vec::with_capacity(CHUNK);
    chunk.push(first);
    chunk
}

/// The row of a list item: numbers in order, as bytes that sort the same way.
pub fn list_item(number: i64) -> Blob {
    Blob::from((number.cast_unsigned() ^ 1 << 63).to_be_bytes())
}

/// The list number that [`list_item`] made a row of.
pub fn list_number(item: &[u8]) -> Option<i64> {
    let bytes: [u8; 8] = item.try_into().ok()?;
    Some((u64::from_be_bytes(bytes) ^ 1 << 63).cast_signed())
}

/// The row value of a score.
pub fn score_value(score: f64) -> Blob {
    Blob::from(Score(score).0.to_bits().to_be_bytes())
}

/// The score that [`score_value`] made a row value of.
pub fn score_of(value: &[u8]) -> Option<f64> {
    Some(f64::from_bits(u64::from_be_bytes(value.try_into().ok()?)))
}

/// All rows of a value, for when it replaces another one whole.
pub fn whole(key: &Blob, value: &Value, deadline: Option<u64>, journal: &mut Journal) {
    if !journal.on {
        return;
    }
    journal.push(|| Effect::Drop { key: key.clone() });
    let text = value.text().cloned();
    journal.push(|| Effect::Header {
        key: key.clone(),
        kind: value.kind(),
        deadline,
        text,
    });
    let mut item = |item: &Blob, value: Blob| {
        journal.push(|| Effect::Item {
            key: key.clone(),
            item: item.clone(),
            value,
        });
    };
    match value {
        Value::Text(_) => {}
        Value::Hash(hash) => hash
            .iter()
            .for_each(|(field, value)| item(field, value.clone())),
        Value::Set(set) => set
            .iter()
            .for_each(|(member, ())| item(member, Blob::default())),
        Value::ZSet(zset) => zset
            .iter()
            .for_each(|(member, score)| item(member, score_value(score))),
        Value::List(list) => {
            for (index, value) in list.items().iter().enumerate() {
                item(&list_item(list.number(index)), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_rows_sort_as_the_list() {
        let numbers = [i64::MIN, -300, -1, 0, 1, 255, 256, i64::MAX];
        assert!(numbers.map(list_item).is_sorted());
        assert_eq!(
            numbers.map(|n| list_number(&list_item(n))),
            numbers.map(Some)
        );
    }
}
