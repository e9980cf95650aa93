//! Counts the memory of all replay buffers of one server.
//!
//! Invariant: the bytes of a [`MemoryCharge`] are subtracted from the budget when the charge is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that all owners use together.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryBudget(Arc<AtomicUsize>);

impl MemoryBudget {
    pub(crate) fn used_bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn charge(&self, bytes: usize) -> MemoryCharge {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        MemoryCharge {
            account: self.clone(),
            bytes,
        }
    }
}

/// Bytes of one owner.
#[derive(Debug)]
pub(crate) struct MemoryCharge {
    account: MemoryBudget,
    bytes: usize,
}

impl MemoryCharge {
    /// A further charge on the same budget.
    pub(crate) fn charge_same_budget(&self, bytes: usize) -> Self {
        self.account.charge(bytes)
    }

    /// Changes the number of bytes of this owner.
    pub(crate) fn resize(&mut self, bytes: usize) {
        if bytes == self.bytes {
            return;
        }
        self.account.0.fetch_add(bytes, Ordering::Relaxed);
        self.account.0.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// Bytes in use by all owners.
    pub(crate) fn of_all(&self) -> usize {
        self.account.used_bytes()
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.account.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
