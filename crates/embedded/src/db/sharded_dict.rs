//! All keys with their values and deadlines.
//!
//! Invariants:
//! 1. A key is in exactly one of `SHARD_COUNT` hash tables. A growing table is rebuilt in one step, so many small
//!    tables keep that pause short.
//! 2. Every key with a deadline has exactly one entry in the `expires` index, at its deadline or earlier
//!    (`indexed_deadline`). Extending a TTL therefore does not touch the index; `next_expired` moves an entry that is
//!    too early.
//! 3. The dict returns expired keys too. `Db` decides which keys a command may see.

use std::collections::BTreeSet;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use indexmap::map::RawEntryApiV1;

use crate::commands::random_pick::random_index;
use crate::values::{SharedBytes, StoredValue};

const SHARD_BITS: u32 = 10;
const SHARD_COUNT: usize = 1 << SHARD_BITS;
/// Position in a cursor that means the end of the table.
const CURSOR_TABLE_END: u64 = (1 << 40) - 1;

/// Value and deadline of a key.
#[derive(Debug)]
pub struct KeyEntry {
    pub value: StoredValue,
    /// Deadline in ms since the Unix epoch, 0 for none.
    deadline: u64,
    /// Deadline under which the index has the key, 0 if the index does not have it.
    indexed_deadline: u64,
}

impl KeyEntry {
    pub fn deadline(&self) -> Option<u64> {
        (self.deadline != 0).then_some(self.deadline)
    }

    pub fn is_expired(&self, now: u64) -> bool {
        self.deadline != 0 && now > self.deadline
    }
}

type DictShard = IndexMap<SharedBytes, KeyEntry, RandomState>;

/// All keys in `SHARD_COUNT` hash tables, and an index of their deadlines.
pub struct ShardedDict {
    shards: Box<[DictShard]>,
    hasher: RandomState,
    expires: BTreeSet<(u64, SharedBytes)>,
    len: usize,
}

impl Default for ShardedDict {
    fn default() -> Self {
        let hasher = RandomState::default();
        let shards = (0..SHARD_COUNT)
            .map(|_| DictShard::with_hasher(hasher.clone()))
            .collect();
        Self {
            shards,
            hasher,
            expires: BTreeSet::new(),
            len: 0,
        }
    }
}

/// Position of a key. Valid until a key is added or removed.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeyPosition {
    shard: usize,
    index: usize,
}

impl ShardedDict {
    fn shard_of(hash: u64) -> usize {
        // The hash tables use the lowest and the highest bits of the hash, so bits in between choose the table.
        (hash >> 32) as usize & (SHARD_COUNT - 1)
    }

    /// Number of keys, including expired keys that are not deleted yet.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn expires_len(&self) -> usize {
        self.expires.len()
    }

    /// Position of a key. The other methods take positions, so a command hashes its key once.
    pub fn find(&self, key: &[u8]) -> Option<KeyPosition> {
        let hash = self.hasher.hash_one(key);
        let shard = Self::shard_of(hash);
        let keys = self.shards[shard].raw_entry_v1();
        let index = keys.index_from_hash(hash, |other| **other == *key)?;
        Some(KeyPosition { shard, index })
    }

    /// Whether a key is at a position that may be outdated.
    pub fn is_key_at(&self, key: &[u8], position: KeyPosition) -> bool {
        let found = self.shards[position.shard].get_index(position.index);
        found.is_some_and(|(other, _)| **other == *key)
    }

    pub fn get(&self, key: &[u8]) -> Option<&KeyEntry> {
        self.find(key).map(|position| self.entry_at(position))
    }

    pub fn entry_at(&self, position: KeyPosition) -> &KeyEntry {
        &self.shards[position.shard][position.index]
    }

    /// Key and value at a position, to change the value.
    pub fn value_at_mut(&mut self, position: KeyPosition) -> (&SharedBytes, &mut StoredValue) {
        let (key, entry) = self.entry_mut(position);
        (key, &mut entry.value)
    }

    fn entry_mut(&mut self, position: KeyPosition) -> (&SharedBytes, &mut KeyEntry) {
        let shard = &mut self.shards[position.shard];
        let entry = shard.get_index_mut(position.index);
        entry.expect("a position is used before a key is added or removed")
    }

    /// Inserts a key that is known to be absent, without a deadline.
    pub fn insert_new(&mut self, key: SharedBytes, value: StoredValue) -> KeyPosition {
        let shard = Self::shard_of(self.hasher.hash_one(&*key));
        let entry = KeyEntry {
            value,
            deadline: 0,
            indexed_deadline: 0,
        };
        let (index, _) = self.shards[shard].insert_full(key, entry);
        self.len += 1;
        KeyPosition { shard, index }
    }

    pub fn remove(&mut self, position: KeyPosition) -> (SharedBytes, KeyEntry) {
        let removed = self.shards[position.shard].swap_remove_index(position.index);
        let (key, entry) = removed.expect("a position is used before a key is added or removed");
        self.len -= 1;
        if entry.indexed_deadline != 0 {
            self.expires.remove(&(entry.indexed_deadline, key.clone()));
        }
        (key, entry)
    }

    pub fn set_deadline(&mut self, position: KeyPosition, deadline: Option<u64>) {
        // 0 means "no deadline" in an entry. A deadline of 0 becomes 1, which has passed as well.
        let deadline = deadline.map_or(0, |deadline| deadline.max(1));
        let (key, entry) = self.entry_mut(position);
        entry.deadline = deadline;
        let indexed = entry.indexed_deadline;
        let index_outdated = indexed != 0 && (deadline == 0 || deadline < indexed);
        if !index_outdated && (indexed != 0 || deadline == 0) {
            return;
        }
        entry.indexed_deadline = deadline;
        let key = key.clone();
        if index_outdated {
            self.expires.remove(&(indexed, key.clone()));
        }
        if deadline != 0 {
            self.expires.insert((deadline, key));
        }
    }

    /// Position of the next key whose deadline has passed at `now`. Takes one from `budget` for each index entry it
    /// checks, and stops at 0.
    pub fn next_expired(&mut self, now: u64, budget: &mut usize) -> Option<KeyPosition> {
        while *budget > 0 {
            let (indexed, key) = self.expires.first()?;
            if *indexed >= now {
                return None;
            }
            *budget -= 1;
            let position = self.find(key)?;
            if self.entry_at(position).is_expired(now) {
                return Some(position);
            }
            let (_, key) = self.expires.pop_first()?;
            let (_, entry) = self.entry_mut(position);
            entry.indexed_deadline = entry.deadline;
            let deadline = entry.deadline;
            self.expires.insert((deadline, key));
        }
        None
    }

    /// All keys in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&SharedBytes, &KeyEntry)> {
        self.shards.iter().flat_map(|shard| shard.iter())
    }

    /// A random key. `None` if there are no keys.
    pub fn random_key(&self) -> Option<&SharedBytes> {
        let mut position = random_index(self.len);
        for shard in &self.shards {
            if position < shard.len() {
                return shard.get_index(position).map(|(key, _)| key);
            }
            position -= shard.len();
        }
        None
    }

    /// One step of `SCAN`. A cursor consists of a table and a position in it. Within a table the scan goes from the end
    /// to the start: removing a key never moves another key to a higher position, so the scan returns every key that
    /// exists throughout.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&SharedBytes, &KeyEntry),
    ) -> u64 {
        let mut shard = (cursor & (SHARD_COUNT as u64 - 1)) as usize;
        let mut upper = if cursor == 0 {
            CURSOR_TABLE_END
        } else {
            cursor >> SHARD_BITS
        };
        let mut remaining = count.max(1);
        while shard < SHARD_COUNT {
            let keys = &self.shards[shard];
            let end = usize::try_from(upper).map_or(keys.len(), |upper| upper.min(keys.len()));
            let start = end.saturating_sub(remaining);
            for position in (start..end).rev() {
                if let Some((key, entry)) = keys.get_index(position) {
                    visit(key, entry);
                }
            }
            remaining -= end - start;
            if start > 0 {
                return (start as u64) << SHARD_BITS | shard as u64;
            }
            shard += 1;
            upper = CURSOR_TABLE_END;
            if remaining == 0 && shard < SHARD_COUNT {
                return CURSOR_TABLE_END << SHARD_BITS | shard as u64;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::StringValue;
    use std::collections::HashSet;

    fn name(n: i64) -> SharedBytes {
        format!("k{n}").into_bytes().into()
    }

    fn dict_of(size: i64) -> ShardedDict {
        let mut keys = ShardedDict::default();
        for n in 0..size {
            keys.insert_new(name(n), StoredValue::String(StringValue::Int(n)));
        }
        keys
    }

    #[test]
    fn a_scan_returns_every_key_that_exists_throughout() {
        let mut keys = dict_of(20_000);
        let mut seen = HashSet::new();
        let (mut cursor, mut round) = (0, 0);
        loop {
            let mut step = Vec::new();
            cursor = keys.scan(cursor, 10, |key, _| step.push(key.clone()));
            if cursor == 0 {
                seen.extend(step);
                break;
            }
            // Removing a key that was just returned moves another key to its position.
            for met in step.iter().filter(|key| key.ends_with(b"0")) {
                if let Some(position) = keys.find(met) {
                    keys.remove(position);
                }
            }
            seen.extend(step);
            for n in (round % 20_000..20_000).step_by(1_000) {
                if let Some(position) = keys.find(&name(n & !1)) {
                    keys.remove(position);
                }
            }
            round += 2;
        }
        for n in (1..20_000).step_by(2) {
            assert!(seen.contains(&name(n)), "k{n} was missed");
        }
    }

    #[test]
    fn a_scan_ends_for_any_cursor() {
        let keys = dict_of(100);
        for cursor in [1, 255, 1_023, u64::MAX, u64::MAX >> 1, 1 << 50] {
            let mut next = cursor;
            for _ in 0..10_000 {
                next = keys.scan(next, 10, |_, _| {});
                if next == 0 {
                    break;
                }
            }
            assert_eq!(next, 0);
        }
    }

    #[test]
    fn extending_a_deadline_keeps_one_index_entry_and_expiry_uses_the_new_deadline() {
        let mut keys = dict_of(2);
        let position = |keys: &ShardedDict, n| keys.find(&name(n)).expect("the key exists");
        let due = |keys: &mut ShardedDict, now| {
            let position = keys.next_expired(now, &mut 10)?;
            Some(keys.value_at_mut(position).0.clone())
        };
        for deadline in [100, 200, 50, 300] {
            keys.set_deadline(position(&keys, 0), Some(deadline));
            assert_eq!(keys.expires_len(), 1);
        }
        keys.set_deadline(position(&keys, 1), Some(60));
        assert_eq!(due(&mut keys, 250), Some(name(1)));
        keys.remove(position(&keys, 1));
        assert_eq!(due(&mut keys, 250), None);
        assert_eq!(due(&mut keys, 300), None);
        assert_eq!(due(&mut keys, 301), Some(name(0)));
        keys.set_deadline(position(&keys, 0), None);
        assert_eq!(keys.expires_len(), 0);
    }
}
