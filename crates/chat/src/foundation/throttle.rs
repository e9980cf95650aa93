//! [`Throttle`]: passes the first event of a key, and none of the following ones until the interval is over.
//! [`NewestThrottle`] passes the greatest of their values then.
//!
//! Invariants:
//! 1. A throttle has at most `max_keys` keys. An event of a key without room is passed and remembered by nothing.
//! 2. A permit that is not committed leaves no trace, whether the event failed or its future was dropped.
//! 3. A clock that jumps back does not extend an interval.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Timestamp;

/// Minimum time between two cleanups of a full throttle. Without it, each event would scan all keys.
const MIN_CLEANUP_INTERVAL: Duration = Duration::from_millis(100);

/// Recent events of this node.
pub(crate) struct Throttle<K: Eq + Hash> {
    interval: Duration,
    max_keys: usize,
    state: Mutex<ThrottleState<K>>,
}

struct ThrottleState<K> {
    passed: HashMap<K, PassedEvent>,
    next_permit_id: u64,
    last_cleanup: Option<Timestamp>,
}

struct PassedEvent {
    at: Timestamp,
    permit_id: u64,
}

/// Permit to pass an event.
#[must_use = "a permit that is dropped is given back"]
pub(crate) struct ThrottlePermit<'a, K: Eq + Hash> {
    throttle: &'a Throttle<K>,
    entry: Option<(K, u64)>,
}

/// Resets a key when it is dropped.
#[must_use = "the key is reset when the guard is dropped"]
pub(crate) struct ResetOnDrop<'a, K: Eq + Hash> {
    throttle: &'a Throttle<K>,
    key: K,
}

impl<K: Eq + Hash + Clone> Throttle<K> {
    pub(crate) fn new(interval: Duration, max_keys: usize) -> Self {
        Self {
            interval,
            max_keys,
            state: Mutex::new(ThrottleState {
                passed: HashMap::new(),
                next_permit_id: 0,
                last_cleanup: None,
            }),
        }
    }

    /// Returns a permit to pass an event; `None` if one was passed within the interval.
    pub(crate) fn try_acquire(&self, key: K, now: Timestamp) -> Option<ThrottlePermit<'_, K>> {
        let mut state = self.state.lock();
        let known = state.passed.get(&key);
        if known.is_some_and(|event| !self.interval_elapsed(event, now)) {
            return None;
        }
        let is_full = known.is_none() && state.passed.len() >= self.max_keys;
        if is_full && !self.make_room(&mut state, now) {
            return Some(ThrottlePermit {
                throttle: self,
                entry: None,
            });
        }
        state.next_permit_id += 1;
        let permit_id = state.next_permit_id;
        let event = PassedEvent { at: now, permit_id };
        state.passed.insert(key.clone(), event);
        Some(ThrottlePermit {
            throttle: self,
            entry: Some((key, permit_id)),
        })
    }

    /// Resets a key: its next event is passed.
    pub(crate) fn reset(&self, key: &K) {
        self.state.lock().passed.remove(key);
    }

    /// Resets a key now, and again when the returned guard is dropped. For work that may undo an event that is passed
    /// meanwhile, so that the event after it is passed.
    pub(crate) fn reset_now_and_on_drop(&self, key: K) -> ResetOnDrop<'_, K> {
        self.reset(&key);
        ResetOnDrop {
            throttle: self,
            key,
        }
    }

    /// Removes the keys whose interval is over.
    pub(crate) fn remove_expired(&self, now: Timestamp) {
        self.remove_expired_in(&mut self.state.lock(), now);
    }

    /// Removes expired keys of a full throttle, unless it was done just now. True if there is room.
    fn make_room(&self, state: &mut ThrottleState<K>, now: Timestamp) -> bool {
        let is_recent = |last: Timestamp| now < last.saturating_add(MIN_CLEANUP_INTERVAL);
        if !state.last_cleanup.is_some_and(is_recent) {
            self.remove_expired_in(state, now);
        }
        state.passed.len() < self.max_keys
    }

    fn remove_expired_in(&self, state: &mut ThrottleState<K>, now: Timestamp) {
        state.last_cleanup = Some(now);
        state
            .passed
            .retain(|_, event| !self.interval_elapsed(event, now));
        state.passed.shrink_to(2 * state.passed.len());
    }

    fn interval_elapsed(&self, event: &PassedEvent, now: Timestamp) -> bool {
        now < event.at || event.at.saturating_add(self.interval) <= now
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.state.lock().passed.len()
    }
}

impl<K: Eq + Hash> ThrottlePermit<'_, K> {
    /// The event was passed.
    pub(crate) fn commit(mut self) {
        self.entry = None;
    }
}

impl<K: Eq + Hash> Drop for ThrottlePermit<'_, K> {
    fn drop(&mut self) {
        let Some((key, permit_id)) = self.entry.take() else {
            return;
        };
        let passed = &mut self.throttle.state.lock().passed;
        let current = passed.get(&key);
        // A later permit has its own entry, which must stay.
        if current.is_some_and(|event| event.permit_id == permit_id) {
            passed.remove(&key);
        }
    }
}

impl<K: Eq + Hash> Drop for ResetOnDrop<'_, K> {
    fn drop(&mut self) {
        self.throttle.state.lock().passed.remove(&self.key);
    }
}

/// Passes a value at once if none was passed within the interval, else the greatest one when the interval is over.
pub(crate) struct NewestThrottle<K: Eq + Hash, T> {
    throttle: Throttle<K>,
    /// Values that wait for the end of their interval. Each key is one of the throttle's keys.
    pending: Mutex<HashMap<K, T>>,
}

impl<K: Eq + Hash + Clone, T: Copy + Ord> NewestThrottle<K, T> {
    pub(crate) fn new(interval: Duration, max_keys: usize) -> Self {
        Self {
            throttle: Throttle::new(interval, max_keys),
            pending: Mutex::default(),
        }
    }

    /// Returns the value if it may be passed now, else keeps it.
    pub(crate) fn submit(&self, key: &K, value: T, now: Timestamp) -> Option<T> {
        let mut pending = self.pending.lock();
        if let Some(kept) = pending.get_mut(key) {
            *kept = value.max(*kept);
            return None;
        }
        if let Some(permit) = self.throttle.try_acquire(key.clone(), now) {
            permit.commit();
            return Some(value);
        }
        pending.insert(key.clone(), value);
        None
    }

    /// Takes the kept values whose interval is over.
    pub(crate) fn take_due(&self, now: Timestamp) -> Vec<(K, T)> {
        let mut pending = self.pending.lock();
        let due = pending.extract_if(|key, _| {
            let permit = self.throttle.try_acquire(key.clone(), now);
            permit.map(ThrottlePermit::commit).is_some()
        });
        let due = due.collect();
        self.throttle.remove_expired(now);
        due
    }
}

#[cfg(test)]
mod tests;
