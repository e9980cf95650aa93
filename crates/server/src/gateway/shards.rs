//! A map of many locks.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};

use parking_lot::Mutex;

/// How many locks.
const SHARDS: usize = 64;

/// A map whose parts are locked apart.
pub(super) struct ShardedMap<K, V> {
    shards: Box<[Mutex<HashMap<K, V>>]>,
    hasher: RandomState,
}

impl<K, V> Default for ShardedMap<K, V> {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl<K: Hash, V> ShardedMap<K, V> {
    /// Does something with the part of a key.
    pub(super) fn with_shard<R>(&self, key: &K, work: impl FnOnce(&mut HashMap<K, V>) -> R) -> R {
        let part = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or_default();
        work(&mut self.shards[part].lock())
    }
}
