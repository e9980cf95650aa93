//! What changed since the last flush, item by item and in order.
//!
//! Always true:
//! 1. Applying the effects of a batch in order to the state at its start gives the state at its end, but for values and
//!    deadlines that fleeting commands renewed, of which it has some earlier one, and for lists that are kept in memory only,
//!    of which it has nothing. Which other keys and items there are is exact.
//! 2. A batch is taken under the engine's lock between two commands, so it never holds half a script or transaction.
//! 3. Taking it is a swap of two pointers: the engine's pause does not grow with what changed.

use crate::value::{Score, SharedBytes, StringValue, Value, ValueType};

/// One change, as rows see it: a key has a header row, a collection has a row for each item.
#[derive(Debug, Clone)]
pub enum JournalEntry {
    /// The key exists with this type and deadline; strings carry their value.
    PutKey {
        /// The key.
        key: SharedBytes,
        /// Its type.
        kind: ValueType,
        /// Its deadline.
        deadline: Option<u64>,
        /// The value of a string, nothing for a collection.
        text: Option<StringValue>,
    },
    /// The deadline of an existing key changed.
    SetDeadline {
        /// The key.
        key: SharedBytes,
        /// Its deadline.
        deadline: Option<u64>,
    },
    /// A collection has this item.
    PutItem {
        /// The key.
        key: SharedBytes,
        /// Field, member, or list number.
        item: SharedBytes,
        /// Value or score.
        value: SharedBytes,
    },
    /// A collection lost this item.
    RemoveItem {
        /// The key.
        key: SharedBytes,
        /// Field, member, or list number.
        item: SharedBytes,
    },
    /// The key is gone with all its items.
    RemoveKey {
        /// The key.
        key: SharedBytes,
    },
    /// All keys are gone.
    RemoveAllKeys,
}

impl JournalEntry {
    /// The key that changes; none where all go.
    pub fn key(&self) -> Option<&SharedBytes> {
        match self {
            Self::PutKey { key, .. }
            | Self::SetDeadline { key, .. }
            | Self::PutItem { key, .. }
            | Self::RemoveItem { key, .. }
            | Self::RemoveKey { key } => Some(key),
            Self::RemoveAllKeys => None,
        }
    }

    fn size(&self) -> usize {
        let payload = match self {
            Self::PutKey {
                key,
                text: Some(StringValue::Raw(raw)),
                ..
            } => key.len() + raw.len(),
            Self::PutKey { key, .. } | Self::SetDeadline { key, .. } | Self::RemoveKey { key } => {
                key.len()
            }
            Self::PutItem { key, item, value } => key.len() + item.len() + value.len(),
            Self::RemoveItem { key, item } => key.len() + item.len(),
            Self::RemoveAllKeys => 0,
        };
        payload + size_of::<Self>()
    }
}

/// The effects since the last flush. Collects nothing for an engine that is not persisted.
#[derive(Debug, Default)]
pub struct Journal {
    enabled: bool,
    /// Whether the running command is fleeting.
    volatile_updates: bool,
    /// In chunks: one growing vector would be copied whole under the lock now and then.
    chunks: Vec<Vec<JournalEntry>>,
    bytes: usize,
}

const CHUNK_LEN: usize = 1_024;

impl Journal {
    /// Starts to collect.
    pub fn enable(&mut self) {
        self.enabled = true;
    }

    /// Notes an effect.
    pub fn push(&mut self, effect: impl FnOnce() -> JournalEntry) {
        if self.enabled {
            let effect = effect();
            self.bytes += effect.size();
            match self.chunks.last_mut() {
                Some(chunk) if chunk.len() < CHUNK_LEN => chunk.push(effect),
                _ => self.chunks.push(new_chunk(effect)),
            }
        }
    }

    /// Says whether what the commands from here on renew need not be kept.
    pub fn set_volatile_updates(&mut self, fleeting: bool) {
        self.volatile_updates = fleeting;
    }

    /// Notes that an item or a string that is there has another value, or a key another deadline.
    pub fn renew(&mut self, effect: impl FnOnce() -> JournalEntry) {
        if !self.volatile_updates {
            self.push(effect);
        }
    }

    /// About how much memory the effects hold.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Hands over what was collected.
    pub fn take(&mut self) -> Vec<Vec<JournalEntry>> {
        self.bytes = 0;
        std::mem::take(&mut self.chunks)
    }
}

fn new_chunk(first: JournalEntry) -> Vec<JournalEntry> {
    let mut chunk = Vec::with_capacity(CHUNK_LEN);
    chunk.push(first);
    chunk
}

/// The row of a list item: numbers in order, as bytes that sort the same way.
pub fn encode_item_number(number: i64) -> SharedBytes {
    SharedBytes::from((number.cast_unsigned() ^ 1 << 63).to_be_bytes())
}

/// The list number that [`list_item`] made a row of.
pub fn decode_item_number(item: &[u8]) -> Option<i64> {
    let bytes: [u8; 8] = item.try_into().ok()?;
    Some((u64::from_be_bytes(bytes) ^ 1 << 63).cast_signed())
}

/// The row value of a score.
pub fn encode_score(score: f64) -> SharedBytes {
    SharedBytes::from(Score(score).0.to_bits().to_be_bytes())
}

/// The score that [`score_value`] made a row value of.
pub fn decode_score(value: &[u8]) -> Option<f64> {
    Some(f64::from_bits(u64::from_be_bytes(value.try_into().ok()?)))
}

/// All rows of a value, for when it replaces another one whole.
pub fn push_whole_value(
    key: &SharedBytes,
    value: &Value,
    deadline: Option<u64>,
    journal: &mut Journal,
) {
    if !journal.enabled {
        return;
    }
    journal.push(|| JournalEntry::RemoveKey { key: key.clone() });
    let text = value.text().cloned();
    journal.push(|| JournalEntry::PutKey {
        key: key.clone(),
        kind: value.value_type(),
        deadline,
        text,
    });
    let mut item = |item: &SharedBytes, value: SharedBytes| {
        journal.push(|| JournalEntry::PutItem {
            key: key.clone(),
            item: item.clone(),
            value,
        });
    };
    match value {
        Value::String(_) => {}
        Value::Hash(hash) => hash
            .iter()
            .for_each(|(field, value)| item(field, value.clone())),
        Value::Set(set) => set
            .iter()
            .for_each(|(member, ())| item(member, SharedBytes::default())),
        Value::ZSet(zset) => zset
            .iter()
            .for_each(|(member, score)| item(member, encode_score(score))),
        Value::List(list) => {
            for (index, value) in list.items().iter().enumerate() {
                item(&encode_item_number(list.number(index)), value.clone());
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
        assert!(numbers.map(encode_item_number).is_sorted());
        assert_eq!(
            numbers.map(|n| decode_item_number(&encode_item_number(n))),
            numbers.map(Some)
        );
    }
}
