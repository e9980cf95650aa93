//! Registry of all sockets, by index. It is sharded, so that threads that create sockets rarely wait for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::{Socket, SocketHandler};
use crate::slab::Slab;

const SHARDS: u32 = 16;

#[derive(Debug)]
pub(super) struct SocketRegistry<H: SocketHandler> {
    shards: [Mutex<Slab<Arc<Socket<H>>>>; SHARDS as usize],
    next_shard: AtomicU32,
}

impl<H: SocketHandler> SocketRegistry<H> {
    pub(super) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            next_shard: AtomicU32::new(0),
        }
    }

    pub(super) fn insert(&self, make: impl FnOnce(u32) -> Socket<H>) -> Arc<Socket<H>> {
        let shard = self.next_shard.fetch_add(1, Ordering::Relaxed) % SHARDS;
        self.shards[shard as usize]
            .lock()
            .insert(|index| Arc::new(make(index * SHARDS + shard)))
    }

    pub(super) fn get(&self, index: u32) -> Option<Arc<Socket<H>>> {
        let shard = self.shards[(index % SHARDS) as usize].lock();
        shard.get(index / SHARDS).cloned()
    }

    pub(super) fn remove(&self, socket: &Arc<Socket<H>>) {
        let index = socket.registry_index();
        let mut shard = self.shards[(index % SHARDS) as usize].lock();
        let removed = shard.remove_if(index / SHARDS, |entry| Arc::ptr_eq(entry, socket));
        drop(shard);
        // Outside of the lock, because this may drop the state of the application.
        drop(removed);
    }

    /// Calls `each` with every socket, outside of the locks.
    pub(super) fn for_each(&self, mut each: impl FnMut(&Arc<Socket<H>>)) {
        for shard in &self.shards {
            let sockets: Vec<_> = shard.lock().iter().cloned().collect();
            sockets.iter().for_each(&mut each);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}
