//! Many changes as few rows: what a batch leaves behind of each key.
//!
//! Always true:
//! 1. Writing a batch gives the state that its effects give one by one, in their order.
//! 2. Each row is written at most once, however often it changed.
//! 3. A batch that could not be written takes in the following effects and stays one batch.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::journal::Effect;
use crate::value::{Blob, Kind, Text};

/// A key's row.
#[derive(Debug)]
pub struct Header {
    /// Its type.
    pub kind: Kind,
    /// Its deadline.
    pub deadline: Option<u64>,
    /// The value of a string.
    pub text: Option<Text>,
}

/// What happens to the rows of one key.
#[derive(Debug, Default)]
pub struct Change {
    /// All rows from before the batch go.
    pub dropped: bool,
    /// Then the key has this row.
    pub header: Option<Header>,
    /// Or its row stays and has this deadline.
    pub deadline: Option<Option<u64>>,
    /// Then it has these items, or has not: of each what was said last.
    items: Vec<(Blob, Option<Blob>)>,
}

impl Change {
    fn add(&mut self, effect: Effect) {
        match effect {
            Effect::Header {
                kind,
                deadline,
                text,
                ..
            } => {
                self.header = Some(Header {
                    kind,
                    deadline,
                    text,
                });
                self.deadline = None;
            }
            Effect::Deadline { deadline, .. } => match &mut self.header {
                Some(header) => header.deadline = deadline,
                None => self.deadline = Some(deadline),
            },
            Effect::Item { item, value, .. } => self.items.push((item, Some(value))),
            Effect::DropItem { item, .. } => self.items.push((item, None)),
            Effect::Drop { .. } => {
                *self = Self {
                    dropped: true,
                    ..Self::default()
                }
            }
            // It is of no key.
            Effect::Clear => {}
        }
    }

    /// The items in the order in which the file has them, each once.
    pub fn items(&self) -> impl Iterator<Item = (&Blob, Option<&Blob>)> {
        let mut items: Vec<_> = self.items.iter().collect();
        // Stable: the last of an item stays the last.
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

/// What changes in the file.
#[derive(Debug, Default)]
pub struct Batch {
    /// All keys from before the batch go.
    pub cleared: bool,
    keys: HashMap<Blob, Change, RandomState>,
    bytes: usize,
}

impl Batch {
    /// Adds what happened after all that it has.
    pub fn absorb(&mut self, effects: impl IntoIterator<Item = Effect>, bytes: usize) {
        self.bytes += bytes;
        let mut effects = effects.into_iter().peekable();
        while let Some(effect) = effects.next() {
            let Some(key) = effect.key().cloned() else {
                self.keys.clear();
                self.cleared = true;
                continue;
            };
            let change = self.keys.entry(key.clone()).or_default();
            change.add(effect);
            // Most commands change several rows of a key, which is looked for once.
            while let Some(effect) = effects.next_if(|next| next.key() == Some(&key)) {
                change.add(effect);
            }
        }
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        !self.cleared && self.keys.is_empty()
    }

    /// About how much memory the effects held that it was made of.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The changes in the order in which the file has the keys, so that neighbours share their page.
    pub fn in_order(&self) -> Vec<(&Blob, &Change)> {
        let mut changes: Vec<_> = self.keys.iter().collect();
        changes.sort_unstable_by_key(|(key, _)| *key);
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(text: &str) -> Blob {
        text.as_bytes().into()
    }

    fn header(key: &str) -> Effect {
        Effect::Header {
            key: blob(key),
            kind: Kind::Hash,
            deadline: None,
            text: None,
        }
    }

    fn item(key: &str, item: &str, value: &str) -> Effect {
        Effect::Item {
            key: blob(key),
            item: blob(item),
            value: blob(value),
        }
    }

    /// What a change says of an item; none if it says nothing.
    fn said(change: &Change, item: &str) -> Option<Option<Blob>> {
        let mut items = change.items();
        let found = items.find(|(it, _)| **it == blob(item))?;
        Some(found.1.cloned())
    }

    #[test]
    fn the_last_change_of_a_row_wins() {
        let mut batch = Batch::default();
        batch.absorb(vec![header("h"), item("h", "f", "1")], 10);
        batch.absorb(
            vec![
                item("h", "f", "2"),
                Effect::DropItem {
                    key: blob("h"),
                    item: blob("g"),
                },
            ],
            10,
        );
        let changes = batch.in_order();
        assert_eq!((changes.len(), batch.bytes()), (1, 20));
        assert_eq!(changes[0].1.items().count(), 2);
        assert_eq!(said(changes[0].1, "f"), Some(Some(blob("2"))));
        assert_eq!(said(changes[0].1, "g"), Some(None));
    }

    #[test]
    fn of_many_changes_of_a_few_rows_the_last_of_each_wins() {
        let mut batch = Batch::default();
        let names = ["a", "b", "c"];
        let change = |nth: usize| item("h", names[nth % 3], &nth.to_string());
        batch.absorb((0..99).map(change), 0);
        let changes = batch.in_order();
        let last: Vec<_> = changes[0].1.items().collect();
        let (a, b, c) = (blob("96"), blob("97"), blob("98"));
        assert_eq!(last.len(), 3);
        assert_eq!(
            [last[0].1, last[1].1, last[2].1],
            [Some(&a), Some(&b), Some(&c)]
        );
    }

    #[test]
    fn a_dropped_key_keeps_only_what_came_after() {
        let mut batch = Batch::default();
        let drop = || Effect::Drop { key: blob("h") };
        batch.absorb(
            vec![
                header("h"),
                item("h", "f", "1"),
                drop(),
                header("h"),
                item("h", "g", "2"),
            ],
            0,
        );
        let changes = batch.in_order();
        assert!(changes[0].1.dropped && changes[0].1.header.is_some());
        assert_eq!(changes[0].1.items().count(), 1);
        batch.absorb(vec![drop()], 0);
        assert!(batch.in_order()[0].1.header.is_none());
    }

    #[test]
    fn a_deadline_joins_the_row_of_a_key_that_is_written_anyway() {
        let mut batch = Batch::default();
        let deadline = |at| Effect::Deadline {
            key: blob("h"),
            deadline: at,
        };
        batch.absorb(vec![deadline(Some(5))], 0);
        assert_eq!(batch.in_order()[0].1.deadline, Some(Some(5)));
        batch.absorb(vec![header("h"), deadline(Some(7))], 0);
        let changes = batch.in_order();
        assert_eq!(changes[0].1.deadline, None);
        assert_eq!(
            changes[0]
                .1
                .header
                .as_ref()
                .and_then(|header| header.deadline),
            Some(7)
        );
    }

    #[test]
    fn changes_of_several_keys_in_turn_are_told_apart() {
        let mut batch = Batch::default();
        let effects = [
            item("a", "f", "1"),
            item("b", "f", "2"),
            item("a", "g", "3"),
            Effect::Clear,
            item("a", "h", "4"),
            item("b", "f", "5"),
            item("a", "f", "6"),
        ];
        batch.absorb(effects, 0);
        let changes = batch.in_order();
        let items = |at: usize, item: &str| said(changes[at].1, item).flatten();
        assert_eq!((changes.len(), changes[0].1.items().count()), (2, 2));
        assert_eq!(items(0, "h"), Some(blob("4")));
        assert_eq!(items(0, "f"), Some(blob("6")));
        assert_eq!(items(1, "f"), Some(blob("5")));
    }

    #[test]
    fn clearing_forgets_what_came_before() {
        let mut batch = Batch::default();
        batch.absorb(vec![header("a"), Effect::Clear, header("b")], 0);
        assert!(batch.cleared && !batch.is_empty());
        assert_eq!(batch.in_order().len(), 1);
    }
}
