//! The memory of one node that is kept for clients that come back.
//!
//! Always true: what was added by a [`Share`] is taken off when the share is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes in all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account(Arc<AtomicUsize>);

impl Account {
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn share(&self, bytes: usize) -> Share {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Share {
            account: self.clone(),
            bytes,
        }
    }
}

/// Bytes of one owner.
#[derive(Debug)]
pub(crate) struct Share {
    account: Account,
    bytes: usize,
}

impl Share {
    /// A share of the same account.
    pub(crate) fn another(&self, bytes: usize) -> Self {
        self.account.share(bytes)
    }

    /// The owner has so many bytes now.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes == self.bytes {
            return;
        }
        self.account.0.fetch_add(bytes, Ordering::Relaxed);
        self.account.0.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// Bytes of all owners.
    pub(crate) fn of_all(&self) -> usize {
        self.account.bytes()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.account.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
