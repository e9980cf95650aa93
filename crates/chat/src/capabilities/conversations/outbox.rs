//! In-memory queue of member changes that must still be published.
//!
//! ```text
//!            commit succeeds               published
//! GUARDED ───────────────────▶ COMMITTED ───────────▶ done
//!    │                             │                   ▲
//!    │ commit fails, or its        │ publishing fails  │ published, tried every 250 ms
//!    │ result is unknown           │ or is cancelled   │
//!    └──▶ OUTBOX (no roles) ───────┴──▶ OUTBOX ────────┘
//! ```
//!
//! Invariant: the outbox holds at most [`MAX_OUTBOX_CHANGES`]. A further change is logged and dropped; the caches of its
//! conversation stay stale until their TTL ends.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::model::{MemberTransition, MembershipChange};

/// Maximum number of changes in the outbox.
const MAX_OUTBOX_CHANGES: usize = 1_000;

/// Changes in the order of their commits.
#[derive(Default)]
pub(super) struct MembershipOutbox(Mutex<VecDeque<Arc<MembershipChange>>>);

/// Puts its change into the outbox when it is dropped, unless the change was published.
pub(super) struct OutboxGuard<'a> {
    outbox: &'a MembershipOutbox,
    change: Option<Arc<MembershipChange>>,
}

impl MembershipOutbox {
    /// Creates the guard of a change. Call it before the commit: if the result of the commit stays unknown, the guard
    /// invalidates the caches of these users without announcing a role ([`MemberTransition::Unchanged`]).
    pub(super) fn guard(&self, change: &MembershipChange) -> OutboxGuard<'_> {
        let mut uncertain = change.clone();
        for (_, transition) in &mut uncertain.users {
            *transition = MemberTransition::Unchanged;
        }
        OutboxGuard {
            outbox: self,
            change: Some(Arc::new(uncertain)),
        }
    }

    pub(super) fn snapshot(&self) -> Vec<Arc<MembershipChange>> {
        self.0.lock().iter().cloned().collect()
    }

    pub(super) fn remove(&self, change: &Arc<MembershipChange>) {
        self.0.lock().retain(|it| !Arc::ptr_eq(it, change));
    }
}

impl OutboxGuard<'_> {
    /// The change is committed: from now on the guard covers the whole change.
    pub(super) fn set_committed(&mut self, change: MembershipChange) -> Arc<MembershipChange> {
        Arc::clone(self.change.insert(Arc::new(change)))
    }

    /// The change is published: nothing is queued.
    pub(super) fn complete(mut self) {
        self.change = None;
    }
}

impl Drop for OutboxGuard<'_> {
    fn drop(&mut self) {
        let Some(change) = self.change.take() else {
            return;
        };
        let mut queue = self.outbox.0.lock();
        if queue.len() < MAX_OUTBOX_CHANGES {
            queue.push_back(change);
        } else {
            tracing::error!(conversation = %change.conversation, "the outbox of member changes is full; caches of this conversation can stay stale until their TTL ends");
        }
    }
}
