//! Throttle of typing starts: one start per user, conversation and interval is written.
//!
//! Invariants:
//! 1. There are at most `max_entries` entries. A start that finds no room is written and gets no entry.
//! 2. A permit that is not committed leaves no entry, whether the start failed or its future was dropped.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Timestamp;
use crate::ids::{ConversationId, UserId};

/// Minimum time between two cleanups of a full throttle. Without it, each start would scan all entries.
const MIN_CLEANUP_INTERVAL: Duration = Duration::from_millis(100);

type ThrottleKey = (ConversationId, UserId);

/// Recent starts of this node.
pub(super) struct StartThrottle {
    window: Duration,
    max_entries: usize,
    inner: Mutex<StartThrottleState>,
}

#[derive(Default)]
struct StartThrottleState {
    entries: HashMap<ThrottleKey, SuppressedStart>,
    next_permit_id: u64,
    last_cleanup: Option<Timestamp>,
}

struct SuppressedStart {
    until: Timestamp,
    permit_id: u64,
}

/// Permit to write a start.
#[must_use = "a permit that is dropped is given back"]
pub(super) struct StartPermit<'a> {
    throttle: &'a StartThrottle,
    entry: Option<(ThrottleKey, u64)>,
}

/// Guard of a running stop. The stop may undo a start that is written meanwhile, so the start after it must be written.
#[must_use = "the entry is reset when the guard is dropped"]
pub(super) struct ResetOnDrop<'a> {
    throttle: &'a StartThrottle,
    conversation: &'a ConversationId,
    user: &'a UserId,
}

impl Drop for ResetOnDrop<'_> {
    fn drop(&mut self) {
        self.throttle.reset(self.conversation, self.user);
    }
}

impl StartThrottle {
    pub(super) fn new(window: Duration, max_entries: usize) -> Self {
        Self {
            window,
            max_entries,
            inner: Mutex::default(),
        }
    }

    /// Returns a permit to write a start; `None` if a start was written within the interval.
    pub(super) fn try_acquire(
        &self,
        conversation: &ConversationId,
        user: &UserId,
        now: Timestamp,
    ) -> Option<StartPermit<'_>> {
        let key = (conversation.clone(), user.clone());
        let mut inner = self.inner.lock();
        let known = inner.entries.get(&key);
        if known.is_some_and(|entry| now < entry.until) {
            return None;
        }
        if known.is_none() && inner.entries.len() >= self.max_entries {
            let wait = inner
                .last_cleanup
                .is_some_and(|last| now < last.saturating_add(MIN_CLEANUP_INTERVAL));
            if !wait {
                inner.remove_expired(now);
            }
            if inner.entries.len() >= self.max_entries {
                return Some(StartPermit {
                    throttle: self,
                    entry: None,
                });
            }
        }
        inner.next_permit_id += 1;
        let permit_id = inner.next_permit_id;
        let until = now.saturating_add(self.window);
        let entry = SuppressedStart { until, permit_id };
        inner.entries.insert(key.clone(), entry);
        Some(StartPermit {
            throttle: self,
            entry: Some((key, permit_id)),
        })
    }

    /// Resets an entry: the next start is written.
    pub(super) fn reset(&self, conversation: &ConversationId, user: &UserId) {
        let key = (conversation.clone(), user.clone());
        self.inner.lock().entries.remove(&key);
    }

    /// Resets an entry now, and again when the returned guard is dropped.
    pub(super) fn reset_now_and_on_drop<'a>(
        &'a self,
        conversation: &'a ConversationId,
        user: &'a UserId,
    ) -> ResetOnDrop<'a> {
        self.reset(conversation, user);
        ResetOnDrop {
            throttle: self,
            conversation,
            user,
        }
    }

    /// Removes expired entries.
    pub(super) fn remove_expired(&self, now: Timestamp) {
        self.inner.lock().remove_expired(now);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.inner.lock().entries.len()
    }
}

impl StartThrottleState {
    fn remove_expired(&mut self, now: Timestamp) {
        self.last_cleanup = Some(now);
        self.entries.retain(|_, entry| now < entry.until);
        self.entries.shrink_to(2 * self.entries.len());
    }
}

impl StartPermit<'_> {
    /// Keeps the entry, because the start was written.
    pub(super) fn commit(mut self) {
        self.entry = None;
    }
}

impl Drop for StartPermit<'_> {
    fn drop(&mut self) {
        let Some((key, permit_id)) = self.entry.take() else {
            return;
        };
        let entries = &mut self.throttle.inner.lock().entries;
        let current = entries.get(&key);
        // A later permit has its own entry, which must stay.
        if current.is_some_and(|entry| entry.permit_id == permit_id) {
            entries.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(nth: usize) -> ThrottleKey {
        let conversation = ConversationId::new("c1").expect("valid");
        (conversation, UserId::new(format!("u{nth}")).expect("valid"))
    }

    fn passes(throttle: &StartThrottle, (conversation, user): &ThrottleKey, now: u64) -> bool {
        let permit = throttle.try_acquire(conversation, user, Timestamp(now));
        let passes = permit.is_some();
        permit.into_iter().for_each(StartPermit::commit);
        passes
    }

    #[test]
    fn a_full_throttle_evicts_expired_entries_or_lets_calls_through() {
        let throttle = StartThrottle::new(Duration::from_secs(2), 3);
        for (nth, now) in [(0, 0), (1, 1_000), (2, 1_000)] {
            assert!(passes(&throttle, &key(nth), now));
        }
        for _ in 0..2 {
            assert!(passes(&throttle, &key(3), 1_000), "no entry was made");
        }
        assert_eq!(throttle.len(), 3);
        assert!(
            !passes(&throttle, &key(2), 1_000),
            "an entry suppresses starts"
        );
        assert!(passes(&throttle, &key(3), 2_000), "the first expired");
        assert!(!passes(&throttle, &key(3), 2_000), "and made room");
        throttle.remove_expired(Timestamp(3_999));
        assert_eq!(throttle.len(), 1);
        throttle.remove_expired(Timestamp(4_000));
        assert_eq!(throttle.len(), 0);
        for nth in 0..3 {
            assert!(passes(&throttle, &key(nth), 4_000));
        }
        throttle.reset(&key(1).0, &key(1).1);
        assert_eq!(throttle.len(), 2, "a reset frees the entry");
    }

    #[test]
    fn dropping_a_throttle_claim_does_not_release_a_later_acquire() {
        let throttle = StartThrottle::new(Duration::from_secs(2), 3);
        let (conversation, user) = key(0);
        let acquire = || throttle.try_acquire(&conversation, &user, Timestamp(0));
        let first = acquire().expect("the first");
        assert!(acquire().is_none());
        drop(first);
        let second = acquire().expect("the first was given back");
        throttle.reset(&conversation, &user);
        let third = acquire().expect("cleared");
        drop(second);
        assert!(acquire().is_none(), "the third is still there");
        third.commit();
        assert!(acquire().is_none());
    }

    #[test]
    fn a_start_that_overtakes_a_stop_does_not_hold_the_next_one_back() {
        let throttle = StartThrottle::new(Duration::from_secs(2), 3);
        let key = key(0);
        assert!(passes(&throttle, &key, 0));
        let stop = throttle.reset_now_and_on_drop(&key.0, &key.1);
        assert!(passes(&throttle, &key, 0), "the stop is running");
        assert!(!passes(&throttle, &key, 0));
        drop(stop);
        assert!(passes(&throttle, &key, 0), "it may have undone the start");
    }
}
