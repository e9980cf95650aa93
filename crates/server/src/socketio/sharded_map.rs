//! Hash map with sharded locks.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};

use parking_lot::Mutex;

/// Number of shards, each with its own lock.
const SHARDS: usize = 64;

/// Hash map whose shards are locked separately.
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
    /// Runs `work` on the locked shard of a key.
    pub(super) fn with_shard<R>(&self, key: &K, work: impl FnOnce(&mut HashMap<K, V>) -> R) -> R {
        let part = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or_default();
        work(&mut self.shards[part].lock())
    }
}
