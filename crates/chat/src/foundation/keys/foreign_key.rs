//! Keys of a foreign type at names that Parlor uses.
//!
//! Invariant: such a key belongs to another service. It stays as it is, and the capability goes on without it.

use std::sync::atomic::{AtomicBool, Ordering};

use tracing::warn;

/// Warning about a key of a foreign type. It is logged once per process, because such a key can be met with every
/// request; `parlor doctor` lists all of them.
pub(crate) struct ForeignKeyWarning {
    consequence: &'static str,
    is_reported: AtomicBool,
}

impl ForeignKeyWarning {
    pub(crate) const fn new(consequence: &'static str) -> Self {
        Self {
            consequence,
            is_reported: AtomicBool::new(false),
        }
    }

    /// Logs the first key.
    pub(crate) fn report(&self, key: &impl std::fmt::Display) {
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            warn!(
                %key,
                consequence = self.consequence,
                "the key has a foreign type and stays as it is; `parlor doctor` lists such keys"
            );
        }
    }
}
