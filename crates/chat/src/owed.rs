//! What is owed: steps that failed or were given up between a row and the store, kept until somebody does them.
//!
//! Always true: there are at most [`MOST`]; each capability says what becomes of those beyond.

use std::collections::HashSet;
use std::hash::Hash;

use parking_lot::Mutex;

/// Most that is owed at one time.
const MAX_PENDING: usize = 10_000;

/// All that one capability owes.
pub(crate) struct RetryQueue<T>(Mutex<HashSet<T>>);

/// What somebody is about to do: it is owed if this is dropped before it is [paid](Debt::paid).
#[must_use = "the items are queued when the guard is dropped"]
pub(crate) struct RetryGuard<'o, T: Eq + Hash> {
    queue: &'o RetryQueue<T>,
    items: Vec<T>,
}

impl<T> Default for RetryQueue<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Eq + Hash + Clone> RetryQueue<T> {
    /// These are about to be done.
    pub(crate) fn guard(&self, steps: impl IntoIterator<Item = T>) -> RetryGuard<'_, T> {
        let steps = steps.into_iter().collect();
        RetryGuard {
            queue: self,
            items: steps,
        }
    }

    /// This could not be done.
    pub(crate) fn push(&self, step: T) {
        let mut owed = self.0.lock();
        if owed.len() < MAX_PENDING {
            owed.insert(step);
        }
    }

    /// All of it.
    pub(crate) fn all(&self) -> Vec<T> {
        self.0.lock().iter().cloned().collect()
    }

    /// Takes this one over. False if it was owed no longer.
    pub(crate) fn remove(&self, step: &T) -> bool {
        self.0.lock().remove(step)
    }

    /// Takes up to so many over.
    pub(crate) fn take_up_to(&self, most: usize) -> Vec<T> {
        let mut owed = self.0.lock();
        let taken: Vec<T> = owed.iter().take(most).cloned().collect();
        for step in &taken {
            owed.remove(step);
        }
        taken
    }
}

impl<T: Eq + Hash> RetryGuard<'_, T> {
    /// Done.
    pub(crate) fn complete(mut self) {
        self.items.clear();
    }
}

impl<T: Eq + Hash> Drop for RetryGuard<'_, T> {
    fn drop(&mut self) {
        if self.items.is_empty() {
            return;
        }
        let mut owed = self.queue.0.lock();
        for step in self.items.drain(..) {
            if owed.len() < MAX_PENDING {
                owed.insert(step);
            }
        }
    }
}
