//! Users whose keys may be behind their rows, because a step failed or was given up between the row and the store.
//!
//! Always true: whoever changes a row owes its users a step from before the change until the step is done. What is still
//! owed when the change is given up is kept here until somebody pays it. Answers never depend on it: they come from the rows.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::ids::UserId;

/// Users who are remembered. Beyond them a user's own next call sets the keys right.
const MOST: usize = 10_000;

#[derive(Default)]
pub(super) struct Owed(Mutex<HashSet<UserId>>);

impl Owed {
    /// These users are owed a step until [`Debt::paid`].
    pub(super) fn owe(&self, users: impl IntoIterator<Item = UserId>) -> Debt<'_> {
        Debt {
            owed: self,
            users: users.into_iter().collect(),
        }
    }

    /// Up to so many of them; they are owed nothing more by this.
    pub(super) fn take(&self, most: usize) -> Vec<UserId> {
        let mut users = self.0.lock();
        let taken: Vec<UserId> = users.iter().take(most).cloned().collect();
        for user in &taken {
            users.remove(user);
        }
        taken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

/// What somebody is about to do for these users.
#[must_use = "it is kept when it is dropped"]
pub(super) struct Debt<'o> {
    owed: &'o Owed,
    users: Vec<UserId>,
}

impl Debt<'_> {
    /// Done.
    pub(super) fn paid(mut self) {
        self.users.clear();
    }
}

impl Drop for Debt<'_> {
    fn drop(&mut self) {
        if self.users.is_empty() {
            return;
        }
        let mut owed = self.owed.0.lock();
        for user in self.users.drain(..) {
            if owed.len() < MOST {
                owed.insert(user);
            }
        }
    }
}
