//! All sockets, by number. In parts, so that those who connect on several threads do not wait for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::Socket;
use crate::slab::Slab;

const PARTS: u32 = 16;

#[derive(Debug)]
pub(super) struct Roster<S> {
    parts: [Mutex<Slab<Arc<Socket<S>>>>; PARTS as usize],
    next: AtomicU32,
}

impl<S> Roster<S> {
    pub(super) fn new() -> Self {
        Self {
            parts: std::array::from_fn(|_| Mutex::default()),
            next: AtomicU32::new(0),
        }
    }

    pub(super) fn insert(&self, make: impl FnOnce(u32) -> Socket<S>) -> Arc<Socket<S>> {
        let part = self.next.fetch_add(1, Ordering::Relaxed) % PARTS;
        self.parts[part as usize]
            .lock()
            .insert(|index| Arc::new(make(index * PARTS + part)))
    }

    pub(super) fn get(&self, number: u32) -> Option<Arc<Socket<S>>> {
        let part = self.parts[(number % PARTS) as usize].lock();
        part.get(number / PARTS).cloned()
    }

    pub(super) fn remove(&self, socket: &Arc<Socket<S>>) {
        let number = socket.number();
        let mut part = self.parts[(number % PARTS) as usize].lock();
        let taken = part.remove(number / PARTS, |entry| Arc::ptr_eq(entry, socket));
        drop(part);
        // The application's state may be dropped by this; not under the lock.
        drop(taken);
    }

    /// Calls `each` with every socket, outside of the locks.
    pub(super) fn for_each(&self, mut each: impl FnMut(&Arc<Socket<S>>)) {
        for part in &self.parts {
            let sockets: Vec<_> = part.lock().iter().cloned().collect();
            sockets.iter().for_each(&mut each);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.lock().len()).sum()
    }
}
