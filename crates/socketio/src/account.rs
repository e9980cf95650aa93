//! The memory of one node that is kept for clients that come back.
//!
//! Always true: what was added by a [`Share`] is taken off when the share is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes in all.
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
    /// A share of the same account.
    pub(crate) fn charge_same_budget(&self, bytes: usize) -> Self {
        self.account.charge(bytes)
    }

    /// The owner has so many bytes now.
    pub(crate) fn resize(&mut self, bytes: usize) {
        if bytes == self.bytes {
            return;
        }
        self.account.0.fetch_add(bytes, Ordering::Relaxed);
        self.account.0.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// Bytes of all owners.
    pub(crate) fn of_all(&self) -> usize {
        self.account.used_bytes()
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.account.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
