//! [`ConversationThrottle`]: publishes at most one value per conversation and interval.
//!
//! Invariants:
//! 1. The first value is passed at once. Of the values that follow within the interval, the greatest one is passed when
//!    the interval is over.
//! 2. The throttle remembers at most [`MAX_CONVERSATIONS`] conversations. Values of further conversations are passed at
//!    once.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Timestamp;
use crate::ids::ConversationId;

/// Maximum number of conversations that the throttle remembers.
const MAX_CONVERSATIONS: usize = 10_000;

pub(crate) struct ConversationThrottle<T> {
    interval: Duration,
    entries: Mutex<HashMap<ConversationId, ThrottleEntry<T>>>,
}

struct ThrottleEntry<T> {
    last_sent: Timestamp,
    pending: Option<T>,
}

impl<T: Copy + Ord> ConversationThrottle<T> {
    pub(crate) fn new(interval: Duration) -> Self {
        Self {
            interval,
            entries: Mutex::default(),
        }
    }

    /// Returns the value if it may be passed now, else keeps it.
    pub(crate) fn submit(
        &self,
        conversation: &ConversationId,
        value: T,
        now: Timestamp,
    ) -> Option<T> {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get_mut(conversation) {
            if entry.pending.is_some() || !self.interval_elapsed(entry, now) {
                let greatest = entry
                    .pending
                    .take()
                    .map_or(value, |pending| pending.max(value));
                entry.pending = Some(greatest);
                return None;
            }
            entry.last_sent = now;
        } else if entries.len() < MAX_CONVERSATIONS {
            let entry = ThrottleEntry {
                last_sent: now,
                pending: None,
            };
            entries.insert(conversation.clone(), entry);
        }
        Some(value)
    }

    /// Takes the kept values whose interval is over.
    pub(crate) fn take_due(&self, now: Timestamp) -> Vec<(ConversationId, T)> {
        let mut due = Vec::new();
        self.entries.lock().retain(|conversation, entry| {
            if !self.interval_elapsed(entry, now) {
                return true;
            }
            let Some(value) = entry.pending.take() else {
                return false;
            };
            entry.last_sent = now;
            due.push((conversation.clone(), value));
            true
        });
        due
    }

    fn interval_elapsed(&self, entry: &ThrottleEntry<T>, now: Timestamp) -> bool {
        // A clock that jumps back must not extend the interval.
        now < entry.last_sent || entry.last_sent.saturating_add(self.interval) <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throttle_emits_the_first_value_at_once_and_the_newest_later() {
        let throttle = ConversationThrottle::new(Duration::from_secs(1));
        let [a, b] = ["a", "b"].map(|id| ConversationId::new(id).expect("valid"));
        assert_eq!(throttle.submit(&a, 1, Timestamp(0)), Some(1));
        assert_eq!(throttle.submit(&b, 1, Timestamp(500)), Some(1));
        assert_eq!(throttle.submit(&a, 3, Timestamp(600)), None);
        assert_eq!(throttle.submit(&a, 2, Timestamp(999)), None);
        assert_eq!(throttle.take_due(Timestamp(999)), []);
        assert_eq!(throttle.submit(&a, 1, Timestamp(1_000)), None);
        assert_eq!(throttle.take_due(Timestamp(1_000)), [(a.clone(), 3)]);
        assert_eq!(throttle.submit(&a, 4, Timestamp(1_500)), None);
        assert_eq!(throttle.take_due(Timestamp(2_000)), [(a.clone(), 4)]);
        assert_eq!(throttle.take_due(Timestamp(3_000)), []);
        assert!(throttle.entries.lock().is_empty());
        assert_eq!(throttle.submit(&a, 5, Timestamp(3_000)), Some(5));
    }
}
