//! Content of a Redis as far as `MONITOR` shows it, with the writer of every value, field, member and list element.
//!
//! Invariants:
//! 1. An entry belongs to its last writer. A counter belongs to the other services as soon as one of them has counted.
//! 2. A command that this model does not know is an error, so no write is overlooked.
//! 3. Keys expire by the time of the command that looks at them.

use std::collections::{BTreeMap, VecDeque};

/// Client that has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyWriter {
    Parlor,
    /// The old service, or the test in its place.
    Other,
}

/// Effect of a command on data that its client did not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// A key was deleted: `DEL`, `UNLINK`, or a TTL of 0.
    Delete,
    /// A value, field or score was replaced by another one.
    Overwrite,
    /// A field, member or list element was removed.
    Remove,
    /// A key without a TTL got one, or a TTL was shortened.
    Expire,
}

/// Change of Parlor to something that another client wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignChange {
    /// Seconds since 1970.
    pub at: f64,
    pub kind: ChangeKind,
    pub key: String,
    /// Field or member; empty for a string, a list or a whole key.
    pub entry: String,
    /// Value, score or TTL before; for a whole key all values, separated by spaces.
    pub old: String,
    pub new: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyEntry {
    pub writer: KeyWriter,
    pub value: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentType {
    Text,
    Hash,
    Set,
    SortedSet,
    List,
}

#[derive(Debug)]
pub(super) struct StoredKey {
    pub content_type: ContentType,
    /// Fields with values, members, members with scores, or one entry without a name for a string.
    pub entries: BTreeMap<String, KeyEntry>,
    pub elements: VecDeque<KeyEntry>,
    /// Seconds since 1970.
    pub expires_at: Option<f64>,
}

impl StoredKey {
    pub fn new(content_type: ContentType) -> Self {
        Self {
            content_type,
            entries: BTreeMap::new(),
            elements: VecDeque::new(),
            expires_at: None,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.elements.is_empty()
    }

    pub fn all_entries(&self) -> impl Iterator<Item = &KeyEntry> {
        self.entries.values().chain(&self.elements)
    }

    /// True if another service has written a part. A counter at 0 carries no information.
    pub fn has_foreign_part(&self) -> bool {
        let is_zero = self.content_type == ContentType::Text && self.entries[""].value == "0";
        let mut all = self.all_entries();
        !is_zero && all.any(|entry| entry.writer == KeyWriter::Other)
    }
}

/// All keys.
#[derive(Debug, Default)]
pub struct Keyspace {
    pub(super) keys: BTreeMap<String, StoredKey>,
}

impl Keyspace {
    /// Names of the entries of a key that other services wrote.
    pub fn foreign_entries(&self, key: &str) -> Vec<&str> {
        let entries = self.keys.get(key).into_iter().flat_map(|key| &key.entries);
        let foreign = entries.filter(|(_, entry)| entry.writer == KeyWriter::Other);
        foreign.map(|(name, _)| name.as_str()).collect()
    }

    /// Value of a field; of a string with an empty name.
    pub fn value(&self, key: &str, entry: &str) -> Option<&str> {
        let entry = self.keys.get(key)?.entries.get(entry)?;
        Some(&entry.value)
    }

    pub(super) fn expire_due(&mut self, at: f64) {
        self.keys
            .retain(|_, key| key.expires_at.is_none_or(|end| end > at));
    }
}
