//! [`ChatContext`]: the store, the keyspace and the clock that every capability receives.
//!
//! Invariant: capabilities read the time only from [`ChatContext::now`], which is the store's clock.

use parlor_store::Store;

pub use crate::clock::{Timestamp, duration_millis};
use crate::failpoint::Failpoint;
use crate::keys::Keyspace;

/// Store, keyspace and clock of a capability. Cloning copies pointers.
#[derive(Debug, Clone)]
pub struct ChatContext {
    store: Store,
    keys: Keyspace,
    failpoint: Option<Failpoint>,
}

impl ChatContext {
    /// Combines a store and a keyspace.
    pub fn new(store: Store, keys: Keyspace) -> Self {
        Self {
            store,
            keys,
            failpoint: None,
        }
    }

    /// Stops the tasks of the node at a failpoint, for tests. A release build ignores it.
    #[must_use]
    pub fn with_failpoint(self, failpoint: &Failpoint) -> Self {
        Self {
            failpoint: Some(failpoint.clone()),
            ..self
        }
    }

    /// The failpoint that a test has selected.
    #[cfg(debug_assertions)]
    pub(crate) fn failpoint(&self) -> Option<&Failpoint> {
        self.failpoint.as_ref()
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Builds the names of keys and channels.
    pub fn keys(&self) -> &Keyspace {
        &self.keys
    }

    /// The current time by the store's clock.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.store.clock().now_ms())
    }

    /// The store epoch, which rises when the store may have lost data.
    pub(crate) fn store_epoch(&self) -> u64 {
        self.store.current_epoch()
    }
}
