//! Folds the journal entries of a flush into one change per row.
//!
//! Invariants:
//! 1. Writing a batch gives the same state as applying its entries one by one in their order.
//! 2. Each row is written at most once, however often it changed.
//! 3. A batch that could not be written takes in the later entries and stays one batch.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::db::journal::{JournalEntry, KeyRow};
use crate::values::SharedBytes;

/// Changes of the rows of one key.
#[derive(Debug, Default)]
pub struct KeyChange {
    /// Whether all rows from before the batch are deleted first.
    pub deletes_old_rows: bool,
    /// New row of the key, if it changes.
    pub key_row: Option<KeyRow>,
    /// New deadline, if the key keeps its row.
    pub deadline: Option<Option<u64>>,
    /// Items that are set, or removed (`None`). The last entry of an item counts.
    items: Vec<(SharedBytes, Option<SharedBytes>)>,
}

impl KeyChange {
    fn add(&mut self, entry: JournalEntry) {
        match entry {
            JournalEntry::PutKey { row, .. } => {
                self.key_row = Some(row);
                self.deadline = None;
            }
            JournalEntry::SetDeadline { deadline, .. } => match &mut self.key_row {
                Some(row) => row.deadline = deadline,
                None => self.deadline = Some(deadline),
            },
            JournalEntry::PutItem { item, value, .. } => self.items.push((item, Some(value))),
            JournalEntry::RemoveItem { item, .. } => self.items.push((item, None)),
            JournalEntry::RemoveKey { .. } => {
                *self = Self {
                    deletes_old_rows: true,
                    ..Self::default()
                }
            }
            // This entry has no key.
            JournalEntry::RemoveAllKeys => {}
        }
    }

    /// Changed items in the order of the file, each once, with its new value or `None` if it is removed.
    pub fn items(&self) -> impl Iterator<Item = (&SharedBytes, Option<&SharedBytes>)> {
        let mut items: Vec<_> = self.items.iter().collect();
        // The sort is stable: the last entry of an item stays the last.
        items.sort_by(|one, other| one.0.cmp(&other.0));
        let mut items = items.into_iter().peekable();
        std::iter::from_fn(move || {
            let mut last = items.next()?;
            while let Some(later) = items.next_if(|(item, _)| *item == last.0) {
                last = later;
            }
            Some((&last.0, last.1.as_ref()))
        })
    }
}

/// All changes of one flush.
#[derive(Debug, Default)]
pub struct FlushBatch {
    /// Whether all keys from before the batch are deleted first.
    pub deletes_all_keys: bool,
    changes: HashMap<SharedBytes, KeyChange, RandomState>,
    bytes: usize,
}

impl FlushBatch {
    /// Adds entries that are later than all entries of the batch.
    pub fn append(&mut self, entries: impl IntoIterator<Item = JournalEntry>, bytes: usize) {
        self.bytes += bytes;
        let mut entries = entries.into_iter().peekable();
        while let Some(entry) = entries.next() {
            let Some(key) = entry.key().cloned() else {
                self.changes.clear();
                self.deletes_all_keys = true;
                continue;
            };
            let change = self.changes.entry(key.clone()).or_default();
            change.add(entry);
            // Most commands change several rows of a key, which is looked up once.
            while let Some(entry) = entries.next_if(|next| next.key() == Some(&key)) {
                change.add(entry);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        !self.deletes_all_keys && self.changes.is_empty()
    }

    /// Approximate memory that the entries of the batch took in the journal, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes sorted by key, as in the file, so that neighbours share a page.
    pub fn sorted_by_key(&self) -> Vec<(&SharedBytes, &KeyChange)> {
        let mut changes: Vec<_> = self.changes.iter().collect();
        changes.sort_unstable_by_key(|(key, _)| *key);
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::ValueType;

    fn blob(text: &str) -> SharedBytes {
        text.as_bytes().into()
    }

    fn key_row(key: &str) -> JournalEntry {
        JournalEntry::PutKey {
            key: blob(key),
            row: KeyRow {
                value_type: ValueType::Hash,
                deadline: None,
                string: None,
            },
        }
    }

    fn item(key: &str, item: &str, value: &str) -> JournalEntry {
        JournalEntry::PutItem {
            key: blob(key),
            item: blob(item),
            value: blob(value),
        }
    }

    /// The change of an item: its new value, or `None` if it is removed. The outer `None` means no change.
    fn item_change(change: &KeyChange, item: &str) -> Option<Option<SharedBytes>> {
        let mut items = change.items();
        let found = items.find(|(it, _)| **it == blob(item))?;
        Some(found.1.cloned())
    }

    #[test]
    fn the_last_change_of_a_row_wins() {
        let mut batch = FlushBatch::default();
        batch.append(vec![key_row("h"), item("h", "f", "1")], 10);
        batch.append(
            vec![
                item("h", "f", "2"),
                JournalEntry::RemoveItem {
                    key: blob("h"),
                    item: blob("g"),
                },
            ],
            10,
        );
        let changes = batch.sorted_by_key();
        assert_eq!((changes.len(), batch.bytes()), (1, 20));
        assert_eq!(changes[0].1.items().count(), 2);
        assert_eq!(item_change(changes[0].1, "f"), Some(Some(blob("2"))));
        assert_eq!(item_change(changes[0].1, "g"), Some(None));
    }

    #[test]
    fn the_last_of_many_changes_of_each_row_wins() {
        let mut batch = FlushBatch::default();
        let names = ["a", "b", "c"];
        let change = |nth: usize| item("h", names[nth % 3], &nth.to_string());
        batch.append((0..99).map(change), 0);
        let changes = batch.sorted_by_key();
        let last: Vec<_> = changes[0].1.items().collect();
        let (a, b, c) = (blob("96"), blob("97"), blob("98"));
        assert_eq!(last.len(), 3);
        assert_eq!(
            [last[0].1, last[1].1, last[2].1],
            [Some(&a), Some(&b), Some(&c)]
        );
    }

    #[test]
    fn a_removed_key_keeps_only_later_changes() {
        let mut batch = FlushBatch::default();
        let drop = || JournalEntry::RemoveKey { key: blob("h") };
        batch.append(
            vec![
                key_row("h"),
                item("h", "f", "1"),
                drop(),
                key_row("h"),
                item("h", "g", "2"),
            ],
            0,
        );
        let changes = batch.sorted_by_key();
        assert!(changes[0].1.deletes_old_rows && changes[0].1.key_row.is_some());
        assert_eq!(changes[0].1.items().count(), 1);
        batch.append(vec![drop()], 0);
        assert!(batch.sorted_by_key()[0].1.key_row.is_none());
    }

    #[test]
    fn a_deadline_joins_the_new_row_of_its_key() {
        let mut batch = FlushBatch::default();
        let deadline = |at| JournalEntry::SetDeadline {
            key: blob("h"),
            deadline: at,
        };
        batch.append(vec![deadline(Some(5))], 0);
        assert_eq!(batch.sorted_by_key()[0].1.deadline, Some(Some(5)));
        batch.append(vec![key_row("h"), deadline(Some(7))], 0);
        let changes = batch.sorted_by_key();
        assert_eq!(changes[0].1.deadline, None);
        assert_eq!(
            changes[0].1.key_row.as_ref().and_then(|row| row.deadline),
            Some(7)
        );
    }

    #[test]
    fn interleaved_changes_of_several_keys_stay_separate() {
        let mut batch = FlushBatch::default();
        let entries = [
            item("a", "f", "1"),
            item("b", "f", "2"),
            item("a", "g", "3"),
            JournalEntry::RemoveAllKeys,
            item("a", "h", "4"),
            item("b", "f", "5"),
            item("a", "f", "6"),
        ];
        batch.append(entries, 0);
        let changes = batch.sorted_by_key();
        let items = |at: usize, item: &str| item_change(changes[at].1, item).flatten();
        assert_eq!((changes.len(), changes[0].1.items().count()), (2, 2));
        assert_eq!(items(0, "h"), Some(blob("4")));
        assert_eq!(items(0, "f"), Some(blob("6")));
        assert_eq!(items(1, "f"), Some(blob("5")));
    }

    #[test]
    fn removing_all_keys_discards_earlier_changes() {
        let mut batch = FlushBatch::default();
        batch.append(
            vec![key_row("a"), JournalEntry::RemoveAllKeys, key_row("b")],
            0,
        );
        assert!(batch.deletes_all_keys && !batch.is_empty());
        assert_eq!(batch.sorted_by_key().len(), 1);
    }
}
