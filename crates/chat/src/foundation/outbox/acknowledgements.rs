//! Entries that have been applied and not deleted yet.
//!
//! Invariant: the list is bounded. If it is full, an entry stays in the outbox and is applied again.

use parking_lot::Mutex;

/// Maximum number of entries that wait for their deletion.
const MAX_ACKNOWLEDGEMENTS: usize = 10_000;

/// Id and claim of an applied entry.
pub(crate) type Acknowledgement = (i64, i64);

/// Acknowledgements of one database handle.
#[derive(Debug, Default)]
pub(crate) struct Acknowledgements(Mutex<Vec<Acknowledgement>>);

impl Acknowledgements {
    pub(crate) fn push(&self, entry: Acknowledgement) {
        self.extend([entry]);
    }

    pub(super) fn extend(&self, entries: impl IntoIterator<Item = Acknowledgement>) {
        let mut list = self.0.lock();
        let room = MAX_ACKNOWLEDGEMENTS.saturating_sub(list.len());
        list.extend(entries.into_iter().take(room));
    }

    pub(super) fn take_all(&self) -> Vec<Acknowledgement> {
        std::mem::take(&mut self.0.lock())
    }
}
