//! Changes since the last flush, one entry per changed row, in the order in which they were made.
//!
//! Invariants:
//! 1. Replaying the entries of a batch on the state at its start gives the state at its end, with two exceptions:
//!    volatile updates are missing, so a value or a deadline may be older; memory-only lists are missing. All other
//!    keys and items are exact.
//! 2. The background thread takes the entries while it holds the engine's mutex, between two commands. A batch never
//!    contains a part of a script or of a transaction.
//! 3. Taking the entries moves a vector. The time the mutex is held does not depend on the number of entries.

use crate::db::row_codec::{encode_item_number, encode_score};
use crate::values::{SharedBytes, StoredValue, StringValue, ValueType};

/// Row of a key.
#[derive(Debug, Clone)]
pub struct KeyRow {
    pub value_type: ValueType,
    /// Deadline in ms since the Unix epoch, if any.
    pub deadline: Option<u64>,
    /// Value of a string, `None` for a collection.
    pub string: Option<StringValue>,
}

/// One changed row. A key has one key row, and a collection has one row per item. Deadlines are in ms since the Unix
/// epoch.
#[derive(Debug, Clone)]
pub enum JournalEntry {
    /// The key exists with this row.
    PutKey {
        key: SharedBytes,
        row: KeyRow,
    },
    SetDeadline {
        key: SharedBytes,
        deadline: Option<u64>,
    },
    PutItem {
        key: SharedBytes,
        /// Field, member, or encoded number of a list item.
        item: SharedBytes,
        /// Value, or encoded score.
        value: SharedBytes,
    },
    RemoveItem {
        key: SharedBytes,
        /// Field, member, or encoded number of a list item.
        item: SharedBytes,
    },
    /// The key was removed with all its items.
    RemoveKey {
        key: SharedBytes,
    },
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
            Self::PutKey { key, row } => match &row.string {
                Some(StringValue::Raw(raw)) => key.len() + raw.len(),
                _ => key.len(),
            },
            Self::SetDeadline { key, .. } | Self::RemoveKey { key } => key.len(),
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
    pub fn enable(&mut self) {
        self.enabled = true;
    }

    pub fn push(&mut self, entry: impl FnOnce() -> JournalEntry) {
        if self.enabled {
            let entry = entry();
            self.bytes += entry.size();
            match self.chunks.last_mut() {
                Some(chunk) if chunk.len() < CHUNK_LEN => chunk.push(entry),
                _ => self.chunks.push(new_chunk(entry)),
            }
        }
    }

    /// Sets whether updates of the following commands are volatile.
    pub fn set_volatile_updates(&mut self, volatile_updates: bool) {
        self.volatile_updates = volatile_updates;
    }

    /// Records that an existing item or string got another value, or a key another deadline, unless updates are
    /// volatile.
    pub fn push_update(&mut self, entry: impl FnOnce() -> JournalEntry) {
        if !self.volatile_updates {
            self.push(entry);
        }
    }

    /// Approximate memory of the entries, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn take_entries(&mut self) -> Vec<Vec<JournalEntry>> {
        self.bytes = 0;
        std::mem::take(&mut self.chunks)
    }
}

fn new_chunk(first: JournalEntry) -> Vec<JournalEntry> {
    let mut chunk = Vec::with_capacity(CHUNK_LEN);
    chunk.push(first);
    chunk
}

/// Records all rows of the value of a new key.
pub fn push_whole_value(
    key: &SharedBytes,
    value: &StoredValue,
    deadline: Option<u64>,
    journal: &mut Journal,
) {
    if !journal.enabled {
        return;
    }
    let string = value.as_string().cloned();
    journal.push(|| JournalEntry::PutKey {
        key: key.clone(),
        row: KeyRow {
            value_type: value.value_type(),
            deadline,
            string,
        },
    });
    let mut item = |item: &SharedBytes, value: SharedBytes| {
        journal.push(|| JournalEntry::PutItem {
            key: key.clone(),
            item: item.clone(),
            value,
        });
    };
    match value {
        StoredValue::String(_) => {}
        StoredValue::Hash(hash) => hash
            .iter()
            .for_each(|(field, value)| item(field, value.clone())),
        StoredValue::Set(set) => set
            .iter()
            .for_each(|(member, ())| item(member, SharedBytes::default())),
        StoredValue::ZSet(zset) => zset
            .iter()
            .for_each(|(member, score)| item(member, encode_score(score))),
        StoredValue::List(list) => {
            for (index, value) in list.items().iter().enumerate() {
                item(&encode_item_number(list.item_number(index)), value.clone());
            }
        }
    }
}
