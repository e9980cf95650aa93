//! Write access to a collection.
//!
//! Invariants:
//! 1. Every change is recorded in the journal by the method that makes it, except changes of memory-only lists.
//! 2. Only an item that exists and gets another value is an update, which a volatile connection does not record.

use std::collections::VecDeque;
use std::ops::Deref;

use crate::db::journal::{Journal, JournalEntry};
use crate::db::row_codec::{encode_item_number, encode_score};
use crate::values::{Hash, List, ListEnd, Set, SharedBytes, ZSet};

/// Collection that a command changes. Reads go to the collection through `Deref`.
pub struct JournaledCollection<'a, C> {
    key: &'a SharedBytes,
    collection: &'a mut C,
    journal: &'a mut Journal,
}

impl<C> Deref for JournaledCollection<'_, C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.collection
    }
}

impl<'a, C> JournaledCollection<'a, C> {
    pub(crate) fn new(
        key: &'a SharedBytes,
        collection: &'a mut C,
        journal: &'a mut Journal,
    ) -> Self {
        Self {
            key,
            collection,
            journal,
        }
    }

    /// Records that an item was set. `row` is called only if the journal is enabled.
    fn record_item(&mut self, row: impl FnOnce() -> (SharedBytes, SharedBytes)) {
        self.journal.push(|| {
            let (item, value) = row();
            JournalEntry::PutItem {
                key: self.key.clone(),
                item,
                value,
            }
        });
    }

    fn record_item_removed(&mut self, item: impl FnOnce() -> SharedBytes) {
        self.journal.push(|| JournalEntry::RemoveItem {
            key: self.key.clone(),
            item: item(),
        });
    }
}

impl JournaledCollection<'_, List> {
    /// Records a list item, unless the list is memory-only.
    fn record_list_item(&mut self, number: i64, item: SharedBytes) {
        if !self.is_memory_only() {
            self.record_item(|| (encode_item_number(number), item));
        }
    }

    fn record_list_item_removed(&mut self, number: i64) {
        if !self.is_memory_only() {
            self.record_item_removed(|| encode_item_number(number));
        }
    }
}

impl JournaledCollection<'_, Hash> {
    /// Sets a field. Returns whether the field is new.
    pub fn insert(&mut self, field: &[u8], value: &[u8]) -> bool {
        // A field that exists, the usual case, needs no copy of its name.
        if let Some((field, stored)) = self.collection.get_mut(field) {
            *stored = value.into();
            self.journal.push_update(|| JournalEntry::PutItem {
                key: self.key.clone(),
                item: field.clone(),
                value: stored.clone(),
            });
            return false;
        }
        let (field, value): (SharedBytes, SharedBytes) = (field.into(), value.into());
        self.record_item(|| (field.clone(), value.clone()));
        self.collection.insert(field, value).is_none()
    }

    pub fn remove(&mut self, field: &[u8]) -> Option<SharedBytes> {
        let (field, value) = self.collection.remove(field)?;
        self.record_item_removed(|| field);
        Some(value)
    }
}

impl JournaledCollection<'_, Set> {
    /// Adds a member. Returns whether the member is new.
    pub fn insert(&mut self, member: &[u8]) -> bool {
        if self.contains(member) {
            return false;
        }
        let member: SharedBytes = member.into();
        self.record_item(|| (member.clone(), SharedBytes::default()));
        self.collection.insert(member, ());
        true
    }

    /// Removes a member. Returns whether it existed.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match self.collection.remove(member) {
            Some((member, ())) => {
                self.record_item_removed(|| member);
                true
            }
            None => false,
        }
    }
}

impl JournaledCollection<'_, ZSet> {
    /// Adds a member that is known to be absent.
    pub fn insert_new(&mut self, member: &[u8], score: f64) {
        let member: SharedBytes = member.into();
        self.record_item(|| (member.clone(), encode_score(score)));
        self.collection.insert_new(member, score);
    }

    /// Records an unchanged score, because the file may contain an older one after a volatile update.
    pub fn record_unchanged_score(&mut self, member: &[u8], score: f64) {
        self.journal.push_update(|| JournalEntry::PutItem {
            key: self.key.clone(),
            item: member.into(),
            value: encode_score(score),
        });
    }

    pub fn update_score(&mut self, member: &[u8], old: f64, new: f64) {
        if let Some(member) = self.collection.update_score(member, old, new) {
            self.journal.push_update(|| JournalEntry::PutItem {
                key: self.key.clone(),
                item: member,
                value: encode_score(new),
            });
        }
    }

    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let score = self.collection.remove(member)?;
        self.record_item_removed(|| member.into());
        Some(score)
    }
}

impl JournaledCollection<'_, List> {
    pub fn push(&mut self, end: ListEnd, item: &[u8]) {
        let item: SharedBytes = item.into();
        let number = self.collection.push(end, item.clone());
        self.record_list_item(number, item);
    }

    pub fn pop(&mut self, end: ListEnd) -> Option<SharedBytes> {
        let (number, item) = self.collection.pop(end)?;
        self.record_list_item_removed(number);
        Some(item)
    }

    /// Replaces the item at `index`, if there is one.
    pub fn set(&mut self, index: usize, item: &[u8]) {
        let item: SharedBytes = item.into();
        if self.collection.set(index, item.clone()) {
            self.record_list_item(self.item_number(index), item);
        }
    }

    /// Replaces all items. A change in the middle needs this, because item numbers are consecutive.
    pub fn replace_all(&mut self, items: VecDeque<SharedBytes>) {
        for index in 0..self.len() {
            let number = self.item_number(index);
            self.record_list_item_removed(number);
        }
        self.collection.replace_all(items);
        for index in 0..self.len() {
            let (number, item) = (self.item_number(index), self.items()[index].clone());
            self.record_list_item(number, item);
        }
    }

    /// Inserts an item before the item at `index`, or at the tail if there is none.
    pub fn insert(&mut self, index: usize, item: &[u8]) {
        if index == 0 {
            return self.push(ListEnd::Head, item);
        }
        if index >= self.len() {
            return self.push(ListEnd::Tail, item);
        }
        let mut items = self.items().clone();
        items.insert(index, item.into());
        self.replace_all(items);
    }

    /// Removes the items at these positions, which must be sorted. Items at the ends are popped; only other items cost
    /// a rewrite of the list.
    pub fn remove(&mut self, mut positions: &[usize]) {
        let mut head = 0;
        while let [first, rest @ ..] = positions
            && *first == head
        {
            self.pop(ListEnd::Head);
            head += 1;
            positions = rest;
        }
        while let [rest @ .., last] = positions
            && *last + 1 == head + self.len()
        {
            self.pop(ListEnd::Tail);
            positions = rest;
        }
        if positions.is_empty() {
            return;
        }
        let is_kept = |&(index, _): &(usize, _)| positions.binary_search(&(index + head)).is_err();
        let items = self
            .items()
            .iter()
            .enumerate()
            .filter(is_kept)
            .map(|(_, item)| item.clone());
        self.replace_all(items.collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::row_codec::decode_item_number;
    use std::collections::BTreeMap;

    /// Returns the list after a change, and the list that the journal's rows describe.
    fn changed(change: impl FnOnce(&mut JournaledCollection<'_, List>)) -> (String, String) {
        let blob = |n: u8| SharedBytes::from([b'a' + n]);
        let mut list = List::with_head_number(0, (0..6).map(blob).collect());
        let mut rows: BTreeMap<i64, SharedBytes> =
            (0..6).map(|n| (n.into(), blob(n as u8))).collect();
        let mut journal = Journal::default();
        journal.enable();
        change(&mut JournaledCollection::new(
            &SharedBytes::default(),
            &mut list,
            &mut journal,
        ));
        for entry in journal.take_entries().into_iter().flatten() {
            match entry {
                JournalEntry::PutItem { item, value, .. } => {
                    rows.insert(decode_item_number(&item).unwrap(), value)
                }
                JournalEntry::RemoveItem { item, .. } => {
                    rows.remove(&decode_item_number(&item).unwrap())
                }
                other => panic!("{other:?}"),
            };
        }
        let text = |items: Vec<&SharedBytes>| items.iter().map(|item| item[0] as char).collect();
        (
            text(list.items().iter().collect()),
            text(rows.values().collect()),
        )
    }

    #[test]
    fn rows_follow_what_is_removed_from_a_list() {
        for removed in 0..1_usize << 6 {
            let positions: Vec<usize> = (0..6).filter(|at| removed >> at & 1 == 1).collect();
            let expected: String = (0..6)
                .filter(|at| removed >> at & 1 == 0)
                .map(|at| (b'a' + at) as char)
                .collect();
            let (items, rows) = changed(|list| list.remove(&positions));
            assert_eq!((&items, &rows), (&expected, &expected), "{positions:?}");
        }
    }

    #[test]
    fn rows_follow_what_is_inserted_into_a_list() {
        for at in 0..=6 {
            let mut expected = "abcdef".to_owned();
            expected.insert(at, 'x');
            let (items, rows) = changed(|list| list.insert(at, b"x"));
            assert_eq!((&items, &rows), (&expected, &expected));
        }
    }
}
