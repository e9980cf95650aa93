//! Limits the memory of all replay buffers of one server.
//!
//! Invariant: the bytes of a [`MemoryCharge`] are subtracted from the budget when the charge is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that all owners use together, and their limit. A charge above the limit is accepted; the owners ask
/// [`MemoryCharge::is_budget_exceeded`] before they grow.
#[derive(Debug, Clone)]
pub(crate) struct MemoryBudget(Arc<BudgetState>);

#[derive(Debug)]
struct BudgetState {
    used_bytes: AtomicUsize,
    max_bytes: usize,
}

impl MemoryBudget {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self(Arc::new(BudgetState {
            used_bytes: AtomicUsize::new(0),
            max_bytes,
        }))
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.0.used_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn charge(&self, bytes: usize) -> MemoryCharge {
        self.0.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        MemoryCharge {
            budget: self.clone(),
            bytes,
        }
    }
}

/// Bytes of one owner.
#[derive(Debug)]
pub(crate) struct MemoryCharge {
    budget: MemoryBudget,
    bytes: usize,
}

impl MemoryCharge {
    /// A further charge on the same budget.
    pub(crate) fn charge_same_budget(&self, bytes: usize) -> Self {
        self.budget.charge(bytes)
    }

    /// Changes the number of bytes of this owner.
    pub(crate) fn resize(&mut self, bytes: usize) {
        if bytes == self.bytes {
            return;
        }
        let used_bytes = &self.budget.0.used_bytes;
        used_bytes.fetch_add(bytes, Ordering::Relaxed);
        used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// True if all owners together use more than the limit.
    pub(crate) fn is_budget_exceeded(&self) -> bool {
        self.budget.used_bytes() > self.budget.0.max_bytes
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        let used_bytes = &self.budget.0.used_bytes;
        used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
