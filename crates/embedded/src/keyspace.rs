//! All keys with their values and deadlines.
//!
//! Always true:
//! 1. A key is in exactly one shard. A table that grows is rebuilt in one go, so many small tables keep that pause short.
//! 2. Every key with a deadline has exactly one entry in the index, at its deadline or earlier (`indexed`). Renewing a
//!    TTL therefore touches no index; the sweeper moves an entry that it finds too early.
//! 3. The keyspace gives out expired keys too: the database above decides what is still visible.

use std::collections::BTreeSet;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use indexmap::IndexMap;

use crate::value::{Blob, Value};

const SHARD_BITS: u32 = 10;
const SHARDS: usize = 1 << SHARD_BITS;
/// Stands for "from the end of the shard, wherever that is" in a cursor.
const FROM_THE_END: u64 = (1 << 40) - 1;

/// A value and when it goes.
#[derive(Debug)]
pub struct Entry {
    /// What the key holds.
    pub value: Value,
    /// The deadline in ms, 0 for none.
    deadline: u64,
    /// Where the index has it, 0 for nowhere.
    indexed: u64,
}

impl Entry {
    /// When the key goes, if ever.
    pub fn deadline(&self) -> Option<u64> {
        (self.deadline != 0).then_some(self.deadline)
    }

    /// Whether the key is gone for a reader at `now`.
    pub fn is_expired(&self, now: u64) -> bool {
        self.deadline != 0 && now > self.deadline
    }
}

type Shard = IndexMap<Blob, Entry, RandomState>;

/// Keys, values, deadlines.
pub struct Keyspace {
    shards: Box<[Shard]>,
    hasher: RandomState,
    deadlines: BTreeSet<(u64, Blob)>,
    len: usize,
}

impl Default for Keyspace {
    fn default() -> Self {
        let hasher = RandomState::default();
        let shards = (0..SHARDS)
            .map(|_| Shard::with_hasher(hasher.clone()))
            .collect();
        Self {
            shards,
            hasher,
            deadlines: BTreeSet::new(),
            len: 0,
        }
    }
}

impl Keyspace {
    fn shard_of(&self, key: &[u8]) -> usize {
        // The tables use the low and the top bits; the shard is chosen by bits between.
        (self.hasher.hash_one(key) >> 32) as usize & (SHARDS - 1)
    }

    fn shard(&self, key: &[u8]) -> &Shard {
        &self.shards[self.shard_of(key)]
    }

    fn shard_mut(&mut self, key: &[u8]) -> &mut Shard {
        let shard = self.shard_of(key);
        &mut self.shards[shard]
    }

    /// The number of keys, expired ones that were not swept yet included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many keys have a deadline.
    pub fn with_deadline(&self) -> usize {
        self.deadlines.len()
    }

    /// The entry of a key.
    pub fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.shard(key).get(key)
    }

    /// The entry of a key with the key as it is stored, to change the value.
    pub fn get_mut(&mut self, key: &[u8]) -> Option<(&Blob, &mut Value)> {
        self.shard_mut(key)
            .get_full_mut(key)
            .map(|(_, key, entry)| (key, &mut entry.value))
    }

    /// Puts a value without a deadline, dropping the old value and deadline. Gives the key as it is stored.
    pub fn insert(&mut self, key: &[u8], value: Value) -> Blob {
        let shard = self.shard_of(key);
        let shard = &mut self.shards[shard];
        if let Some((_, key, entry)) = shard.get_full_mut(key) {
            entry.value = value;
            let key = key.clone();
            let indexed = std::mem::take(&mut entry.indexed);
            entry.deadline = 0;
            if indexed != 0 {
                self.deadlines.remove(&(indexed, key.clone()));
            }
            return key;
        }
        let key: Blob = key.into();
        shard.insert(
            key.clone(),
            Entry {
                value,
                deadline: 0,
                indexed: 0,
            },
        );
        self.len += 1;
        key
    }

    /// Puts a value and keeps the deadline of an existing key. Gives the key as it is stored.
    pub fn replace(&mut self, key: &[u8], value: Value) -> Blob {
        if let Some((key, old)) = self.get_mut(key) {
            *old = value;
            return key.clone();
        }
        self.insert(key, value)
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &[u8]) -> Option<(Blob, Entry)> {
        let (key, entry) = self.shard_mut(key).swap_remove_entry(key)?;
        self.len -= 1;
        if entry.indexed != 0 {
            self.deadlines.remove(&(entry.indexed, key.clone()));
        }
        Some((key, entry))
    }

    /// Gives an existing key a deadline, or none. Answers with the key as it is stored.
    pub fn set_deadline(&mut self, key: &[u8], deadline: Option<u64>) -> Option<Blob> {
        let shard = self.shard_of(key);
        let (_, key, entry) = self.shards[shard].get_full_mut(key)?;
        // 0 means none inside an entry, and 1970 is over either way.
        entry.deadline = deadline.map_or(0, |d| d.max(1));
        let stale = entry.indexed != 0 && (entry.deadline == 0 || entry.deadline < entry.indexed);
        if stale {
            self.deadlines.remove(&(entry.indexed, key.clone()));
            entry.indexed = 0;
        }
        if entry.deadline != 0 && entry.indexed == 0 {
            entry.indexed = entry.deadline;
            self.deadlines.insert((entry.deadline, key.clone()));
        }
        Some(key.clone())
    }

    /// The next key whose deadline is over at `now`, looking at no more than `budget` index entries. The second part
    /// says whether there may be more.
    pub fn next_expired(&mut self, now: u64, budget: &mut usize) -> Option<Blob> {
        while *budget > 0 {
            let (indexed, key) = self.deadlines.first()?.clone();
            if indexed >= now {
                return None;
            }
            *budget -= 1;
            let shard = self.shard_of(&key);
            let entry = self.shards[shard].get_mut(&key)?;
            if entry.is_expired(now) {
                return Some(key);
            }
            self.deadlines.pop_first();
            entry.indexed = entry.deadline;
            self.deadlines.insert((entry.deadline, key));
        }
        None
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// All keys in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Blob, &Entry)> {
        self.shards.iter().flat_map(|shard| shard.iter())
    }

    /// A key picked by a random number.
    pub fn pick(&self, random: u64) -> Option<(&Blob, &Entry)> {
        let mut position = usize::try_from(random).unwrap_or(0) % self.len.max(1);
        for shard in &self.shards {
            if position < shard.len() {
                return shard.get_index(position);
            }
            position -= shard.len();
        }
        None
    }

    /// One step of a scan. A cursor is a shard and a position in it; inside a shard the walk goes down, since removing
    /// a key never moves another one up: whatever stays is met.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&Blob, &Entry)) -> u64 {
        let mut shard = (cursor & (SHARDS as u64 - 1)) as usize;
        let mut top = if cursor == 0 {
            FROM_THE_END
        } else {
            cursor >> SHARD_BITS
        };
        let mut left = count.max(1);
        while shard < SHARDS {
            let keys = &self.shards[shard];
            let end = usize::try_from(top).map_or(keys.len(), |top| top.min(keys.len()));
            let start = end.saturating_sub(left);
            for position in (start..end).rev() {
                if let Some((key, entry)) = keys.get_index(position) {
                    visit(key, entry);
                }
            }
            left -= end - start;
            if start > 0 {
                return (start as u64) << SHARD_BITS | shard as u64;
            }
            shard += 1;
            top = FROM_THE_END;
            if left == 0 && shard < SHARDS {
                return FROM_THE_END << SHARD_BITS | shard as u64;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Text;
    use std::collections::HashSet;

    fn keyspace(size: i64) -> Keyspace {
        let mut keys = Keyspace::default();
        for n in 0..size {
            keys.insert(format!("k{n}").as_bytes(), Value::Text(Text::Int(n)));
        }
        keys
    }

    #[test]
    fn a_scan_meets_every_key_that_stays_and_ends() {
        let mut keys = keyspace(20_000);
        let mut seen = HashSet::new();
        let (mut cursor, mut round) = (0, 0);
        loop {
            cursor = keys.scan(cursor, 10, |key, _| {
                seen.insert(key.clone());
            });
            if cursor == 0 {
                break;
            }
            for n in (round % 20_000..20_000).step_by(1_000) {
                keys.remove(format!("k{}", n & !1).as_bytes());
            }
            round += 2;
        }
        for n in (1..20_000).step_by(2) {
            let key: Blob = format!("k{n}").into_bytes().into();
            assert!(seen.contains(&key), "k{n} was missed");
        }
    }

    #[test]
    fn a_cursor_made_up_by_a_client_is_harmless() {
        let keys = keyspace(100);
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
    fn renewing_a_deadline_leaves_one_index_entry_and_the_sweeper_finds_the_truth() {
        let mut keys = keyspace(2);
        for deadline in [100, 200, 50, 300] {
            keys.set_deadline(b"k0", Some(deadline));
            assert_eq!(keys.with_deadline(), 1);
        }
        keys.set_deadline(b"k1", Some(60));
        assert_eq!(keys.next_expired(250, &mut 10).as_deref(), Some(&b"k1"[..]));
        keys.remove(b"k1");
        assert_eq!(keys.next_expired(250, &mut 10), None);
        assert_eq!(keys.next_expired(300, &mut 10), None);
        assert_eq!(keys.next_expired(301, &mut 10).as_deref(), Some(&b"k0"[..]));
        keys.set_deadline(b"k0", None);
        assert_eq!(keys.with_deadline(), 0);
    }
}
