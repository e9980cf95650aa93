//! What is owed: steps that failed or were given up between a row and the store, kept until somebody does them.
//!
//! Always true: there are at most [`MOST`]; each capability says what becomes of those beyond.

use std::collections::HashSet;
use std::hash::Hash;

use parking_lot::Mutex;

/// Most that is owed at one time.
const MOST: usize = 10_000;

/// All that one capability owes.
pub(crate) struct Owed<T>(Mutex<HashSet<T>>);

/// What somebody is about to do: it is owed if this is dropped before it is [paid](Debt::paid).
#[must_use = "it is kept when it is dropped"]
pub(crate) struct Debt<'o, T: Eq + Hash> {
    owed: &'o Owed<T>,
    steps: Vec<T>,
}

impl<T> Default for Owed<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Eq + Hash + Clone> Owed<T> {
    /// These are about to be done.
    pub(crate) fn owe(&self, steps: impl IntoIterator<Item = T>) -> Debt<'_, T> {
        let steps = steps.into_iter().collect();
        Debt { owed: self, steps }
    }

    /// This could not be done.
    pub(crate) fn note(&self, step: T) {
        let mut owed = self.0.lock();
        if owed.len() < MOST {
            owed.insert(step);
        }
    }

    /// All of it.
    pub(crate) fn all(&self) -> Vec<T> {
        self.0.lock().iter().cloned().collect()
    }

    /// Takes this one over. False if it was owed no longer.
    pub(crate) fn take(&self, step: &T) -> bool {
        self.0.lock().remove(step)
    }

    /// Takes up to so many over.
    pub(crate) fn take_some(&self, most: usize) -> Vec<T> {
        let mut owed = self.0.lock();
        let taken: Vec<T> = owed.iter().take(most).cloned().collect();
        for step in &taken {
            owed.remove(step);
        }
        taken
    }
}

impl<T: Eq + Hash> Debt<'_, T> {
    /// Done.
    pub(crate) fn paid(mut self) {
        self.steps.clear();
    }
}

impl<T: Eq + Hash> Drop for Debt<'_, T> {
    fn drop(&mut self) {
        if self.steps.is_empty() {
            return;
        }
        let mut owed = self.owed.0.lock();
        for step in self.steps.drain(..) {
            if owed.len() < MOST {
                owed.insert(step);
            }
        }
    }
}
