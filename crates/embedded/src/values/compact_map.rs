//! The map behind hashes and sets: a vector while small, a hash table above.
//!
//! Invariants:
//! 1. Items have positions `0..len`. Removing an item never moves another item to a higher position.
//! 2. A scan from the end to the start therefore returns every item that exists throughout, however the map changes
//!    meanwhile.

use foldhash::fast::RandomState;
use indexmap::IndexMap;

use super::SharedBytes;

/// Up to this size a linear search is faster than hashing, and the map needs one allocation.
const MAX_SMALL_LEN: usize = 32;

/// Keys with values. Positions make random picks and scan steps O(1) per item.
#[derive(Debug, Clone)]
pub struct CompactMap<V>(Repr<V>);

#[derive(Debug, Clone)]
enum Repr<V> {
    Small(Vec<(SharedBytes, V)>),
    Large(Box<IndexMap<SharedBytes, V, RandomState>>),
}

impl<V> Default for CompactMap<V> {
    fn default() -> Self {
        Self(Repr::Small(Vec::new()))
    }
}

impl<V> CompactMap<V> {
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Small(items) => items.len(),
            Repr::Large(items) => items.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, key: &[u8]) -> Option<&V> {
        match &self.0 {
            Repr::Small(items) => items.iter().find(|(k, _)| **k == *key).map(|(_, v)| v),
            Repr::Large(items) => items.get(key),
        }
    }

    /// Item of `key`, to change its value.
    pub fn get_mut(&mut self, key: &[u8]) -> Option<(&SharedBytes, &mut V)> {
        match &mut self.0 {
            Repr::Small(items) => {
                let item = items.iter_mut().find(|(k, _)| **k == *key);
                item.map(|(k, v)| (&*k, v))
            }
            Repr::Large(items) => items.get_full_mut(key).map(|(_, k, v)| (k, v)),
        }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    pub fn get_index(&self, position: usize) -> Option<(&SharedBytes, &V)> {
        match &self.0 {
            Repr::Small(items) => items.get(position).map(|(k, v)| (k, v)),
            Repr::Large(items) => items.get_index(position),
        }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&SharedBytes, &V)> {
        (0..self.len()).filter_map(|position| self.get_index(position))
    }

    /// Inserts an item and returns the value that the key had before.
    pub fn insert(&mut self, key: SharedBytes, value: V) -> Option<V> {
        match &mut self.0 {
            Repr::Small(items) => {
                if let Some((_, old)) = items.iter_mut().find(|(k, _)| *k == key) {
                    return Some(std::mem::replace(old, value));
                }
                if items.len() < MAX_SMALL_LEN {
                    items.push((key, value));
                    return None;
                }
                let mut large: IndexMap<_, _, _> = std::mem::take(items).into_iter().collect();
                large.insert(key, value);
                self.0 = Repr::Large(Box::new(large));
                None
            }
            Repr::Large(items) => items.insert(key, value),
        }
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<(SharedBytes, V)> {
        match &mut self.0 {
            Repr::Small(items) => {
                let position = items.iter().position(|(k, _)| **k == *key)?;
                Some(items.remove(position))
            }
            Repr::Large(items) => items.swap_remove_entry(key),
        }
    }

    /// One step of a scan: visits about `count` items and returns the next cursor, 0 at the end. A small map is visited
    /// in one step.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&SharedBytes, &V)) -> u64 {
        let len = self.len();
        let upper = match (&self.0, cursor) {
            (Repr::Small(_), _) | (_, 0) => len,
            (Repr::Large(_), cursor) => usize::try_from(cursor).map_or(len, |c| c.min(len)),
        };
        let lower = match &self.0 {
            Repr::Small(_) => 0,
            Repr::Large(_) => upper.saturating_sub(count.max(1)),
        };
        for position in (lower..upper).rev() {
            if let Some((key, value)) = self.get_index(position) {
                visit(key, value);
            }
        }
        lower as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn blob(n: u32) -> SharedBytes {
        n.to_string().into_bytes().into()
    }

    #[test]
    fn a_scan_returns_every_item_that_exists_throughout() {
        for size in [5, 40, 500] {
            let mut map: CompactMap<()> = CompactMap::default();
            for n in 0..size {
                map.insert(blob(n), ());
            }
            let mut seen = HashSet::new();
            let (mut cursor, mut round) = (0, 0);
            loop {
                cursor = map.scan(cursor, 7, |key, ()| {
                    seen.insert(key.clone());
                });
                if cursor == 0 {
                    break;
                }
                // Odd numbers below the size stay; even numbers are removed, and new numbers are added.
                for n in (round..size).step_by(10).map(|n| n & !1) {
                    map.remove(&blob(n));
                }
                map.insert(blob(10_000 + round), ());
                round += 2;
            }
            for n in (1..size).step_by(2) {
                assert!(seen.contains(&blob(n)), "{n} of {size} was missed");
            }
        }
    }

    #[test]
    fn compact_map_works_in_small_and_large_form() {
        let mut map = CompactMap::default();
        for n in 0..100 {
            assert_eq!(map.insert(blob(n), n), None);
        }
        assert_eq!(map.insert(blob(7), 70), Some(7));
        assert_eq!(map.remove(&blob(8)).map(|(_, v)| v), Some(8));
        assert_eq!(map.remove(&blob(8)), None);
        assert_eq!((map.len(), map.get(&blob(7))), (99, Some(&70)));
        assert_eq!(map.iter().count(), 99);
    }
}
