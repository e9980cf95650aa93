//! Registry of all sockets, by index. It is sharded, so that threads that create sockets rarely wait for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use slab::Slab;

use super::{Socket, SocketHandler};

const SHARDS: usize = 16;

#[derive(Debug)]
pub(super) struct SocketRegistry<H: SocketHandler> {
    shards: [Mutex<Slab<Arc<Socket<H>>>>; SHARDS],
    next_shard: AtomicUsize,
}

impl<H: SocketHandler> SocketRegistry<H> {
    pub(super) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            next_shard: AtomicUsize::new(0),
        }
    }

    pub(super) fn insert(&self, make: impl FnOnce(u32) -> Socket<H>) -> Arc<Socket<H>> {
        let number = self.next_shard.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let mut shard = self.shards[number].lock();
        let entry = shard.vacant_entry();
        let index = u32::try_from(entry.key() * SHARDS + number);
        let socket = make(index.expect("fewer sockets than bytes of memory"));
        Arc::clone(entry.insert(Arc::new(socket)))
    }

    pub(super) fn get(&self, index: u32) -> Option<Arc<Socket<H>>> {
        let index = index as usize;
        let shard = self.shards[index % SHARDS].lock();
        shard.get(index / SHARDS).cloned()
    }

    pub(super) fn remove(&self, socket: &Arc<Socket<H>>) {
        let index = socket.registry_index as usize;
        let mut shard = self.shards[index % SHARDS].lock();
        // The index may belong to a newer socket.
        let entry = shard.get(index / SHARDS);
        if entry.is_some_and(|it| Arc::ptr_eq(it, socket)) {
            shard.remove(index / SHARDS);
            if shard.is_empty() {
                *shard = Slab::new();
            }
        }
    }

    /// Calls `each` with every socket, outside of the locks.
    pub(super) fn for_each(&self, mut each: impl FnMut(&Arc<Socket<H>>)) {
        for shard in &self.shards {
            let sockets: Vec<_> = shard.lock().iter().map(|(_, it)| Arc::clone(it)).collect();
            sockets.iter().for_each(&mut each);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}
