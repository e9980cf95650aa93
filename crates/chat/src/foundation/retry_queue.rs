//! Queue of store updates that a background task has to repeat.
//!
//! A capability commits a row first and updates the store second. If the store update fails, or if the caller drops the
//! future between the two steps, the update goes into this queue.
//!
//! Invariants:
//! 1. The queue is in memory: a process that ends loses it.
//! 2. The queue holds at most [`MAX_PENDING`] distinct items and drops further ones. Each capability documents the
//!    effect.

use std::collections::HashSet;
use std::hash::Hash;

use parking_lot::Mutex;

/// Maximum number of queued items.
const MAX_PENDING: usize = 10_000;

/// Store updates of one capability that have to be repeated.
pub(crate) struct RetryQueue<T>(Mutex<HashSet<T>>);

/// Store updates that are about to run. If the guard is dropped before [`complete`](Self::complete), they are queued.
#[must_use = "the items are queued when the guard is dropped"]
pub(crate) struct RetryGuard<'a, T: Eq + Hash> {
    queue: &'a RetryQueue<T>,
    items: Vec<T>,
}

impl<T> Default for RetryQueue<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Eq + Hash> RetryQueue<T> {
    /// Creates the guard of these updates. Call it before the work starts.
    pub(crate) fn guard(&self, items: impl IntoIterator<Item = T>) -> RetryGuard<'_, T> {
        RetryGuard {
            queue: self,
            items: items.into_iter().collect(),
        }
    }

    /// Queues an update that failed.
    pub(crate) fn push(&self, item: T) {
        let mut queued = self.0.lock();
        if queued.len() < MAX_PENDING {
            queued.insert(item);
        }
    }

    /// Removes an item. Returns false if it is not queued.
    pub(crate) fn remove(&self, item: &T) -> bool {
        self.0.lock().remove(item)
    }
}

impl<T: Eq + Hash + Clone> RetryQueue<T> {
    /// Copies all queued items.
    pub(crate) fn all(&self) -> Vec<T> {
        self.0.lock().iter().cloned().collect()
    }

    /// Removes up to `max` items.
    pub(crate) fn take_up_to(&self, max: usize) -> Vec<T> {
        let mut queued = self.0.lock();
        let taken: Vec<T> = queued.iter().take(max).cloned().collect();
        for item in &taken {
            queued.remove(item);
        }
        taken
    }
}

impl<T: Eq + Hash> RetryGuard<'_, T> {
    /// The updates have succeeded: nothing is queued.
    pub(crate) fn complete(mut self) {
        self.items.clear();
    }
}

impl<T: Eq + Hash> Drop for RetryGuard<'_, T> {
    fn drop(&mut self) {
        for item in self.items.drain(..) {
            self.queue.push(item);
        }
    }
}
