//! Changes since the last flush, one entry per changed row, in the order in which they were made.
//!
//! Invariants:
//! 1. Replaying the entries of a batch on the state at its start gives the state at its end, with two exceptions:
//!    volatile updates are missing, so a value or a deadline may be older; memory-only lists are missing. All other
//!    keys and items are exact.
//! 2. The background thread takes the entries while it holds the engine's mutex, between two commands. A batch never
//!    contains a part of a script or of a transaction.
//! 3. Taking the entries moves a vector. The time the mutex is held does not depend on the number of entries.

use crate::value::{Score, SharedBytes, StringValue, Value, ValueType};

/// One changed row. A key has one key row, and a collection has one row per item.
#[derive(Debug, Clone)]
pub enum JournalEntry {
    /// The key exists with this type and deadline. A string also carries its value.
    PutKey {
        /// The key.
        key: SharedBytes,
        /// Type of the value.
        kind: ValueType,
        /// Deadline in ms since the Unix epoch, if any.
        deadline: Option<u64>,
        /// Value of a string, `None` for a collection.
        text: Option<StringValue>,
    },
    /// The deadline of an existing key changed.
    SetDeadline {
        /// The key.
        key: SharedBytes,
        /// New deadline in ms since the Unix epoch, if any.
        deadline: Option<u64>,
    },
    /// An item of a collection was set.
    PutItem {
        /// The key.
        key: SharedBytes,
        /// Field, member, or encoded number of a list item.
        item: SharedBytes,
        /// Value, or encoded score.
        value: SharedBytes,
    },
    /// An item of a collection was removed.
    RemoveItem {
        /// The key.
        key: SharedBytes,
        /// Field, member, or encoded number of a list item.
        item: SharedBytes,
    },
    /// The key was removed with all its items.
    RemoveKey {
        /// The key.
        key: SharedBytes,
    },
    /// All keys were removed.
    RemoveAllKeys,
}

impl JournalEntry {
    /// The changed key, `None` if all keys were removed.
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

/// Entries since the last flush. The journal of an engine without a data folder is disabled and collects nothing.
#[derive(Debug, Default)]
pub struct Journal {
    enabled: bool,
    /// Whether updates of the running command are volatile.
    volatile_updates: bool,
    /// Entries in chunks. One growing vector would now and then be copied as a whole under the mutex.
    chunks: Vec<Vec<JournalEntry>>,
    bytes: usize,
}

const CHUNK_LEN: usize = 1_024;

impl Journal {
    /// Enables the journal.
    pub fn enable(&mut self) {
        self.enabled = true;
    }

    /// Records an entry.
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

    /// Sets whether updates of the following commands are volatile.
    pub fn set_volatile_updates(&mut self, fleeting: bool) {
        self.volatile_updates = fleeting;
    }

    /// Records that an existing item or string got another value, or a key another deadline, unless updates are
    /// volatile.
    pub fn renew(&mut self, effect: impl FnOnce() -> JournalEntry) {
        if !self.volatile_updates {
            self.push(effect);
        }
    }

    /// Approximate memory of the entries, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes all entries out of the journal.
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

/// Encodes the number of a list item as bytes that sort in the order of the numbers.
pub fn encode_item_number(number: i64) -> SharedBytes {
    SharedBytes::from((number.cast_unsigned() ^ 1 << 63).to_be_bytes())
}

/// Decodes the number that [`encode_item_number`] encoded.
pub fn decode_item_number(item: &[u8]) -> Option<i64> {
    let bytes: [u8; 8] = item.try_into().ok()?;
    Some((u64::from_be_bytes(bytes) ^ 1 << 63).cast_signed())
}

/// Encodes a score as the value of a row.
pub fn encode_score(score: f64) -> SharedBytes {
    SharedBytes::from(Score(score).0.to_bits().to_be_bytes())
}

/// Decodes the score that [`encode_score`] encoded.
pub fn decode_score(value: &[u8]) -> Option<f64> {
    Some(f64::from_bits(u64::from_be_bytes(value.try_into().ok()?)))
}

/// Records all rows of a value that replaces the whole value of a key.
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
