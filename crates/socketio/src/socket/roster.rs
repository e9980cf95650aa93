//! Registry of all sockets, by index. It is sharded, so that threads that create sockets rarely wait for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::Socket;
use crate::slab::Slab;

const SHARDS: u32 = 16;

#[derive(Debug)]
pub(super) struct SocketRegistry<S> {
    shards: [Mutex<Slab<Arc<Socket<S>>>>; SHARDS as usize],
    next_shard: AtomicU32,
}

impl<S> SocketRegistry<S> {
    pub(super) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            next_shard: AtomicU32::new(0),
        }
    }

    pub(super) fn insert(&self, make: impl FnOnce(u32) -> Socket<S>) -> Arc<Socket<S>> {
        let part = self.next_shard.fetch_add(1, Ordering::Relaxed) % SHARDS;
        self.shards[part as usize]
            .lock()
            .insert(|index| Arc::new(make(index * SHARDS + part)))
    }

    pub(super) fn get(&self, number: u32) -> Option<Arc<Socket<S>>> {
        let part = self.shards[(number % SHARDS) as usize].lock();
        part.get(number / SHARDS).cloned()
    }

    pub(super) fn remove(&self, socket: &Arc<Socket<S>>) {
        let number = socket.registry_index();
        let mut part = self.shards[(number % SHARDS) as usize].lock();
        let taken = part.remove(number / SHARDS, |entry| Arc::ptr_eq(entry, socket));
        drop(part);
        // Outside of the lock, because this may drop the state of the application.
        drop(taken);
    }

    /// Calls `each` with every socket, outside of the locks.
    pub(super) fn for_each(&self, mut each: impl FnMut(&Arc<Socket<S>>)) {
        for part in &self.shards {
            let sockets: Vec<_> = part.lock().iter().cloned().collect();
            sockets.iter().for_each(&mut each);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|part| part.lock().len()).sum()
    }
}
