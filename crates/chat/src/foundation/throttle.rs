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
    pub(crate) fn submit(&self, conversation: &ConversationId, it: T, now: Timestamp) -> Option<T> {
        let mut places = self.entries.lock();
        if let Some(place) = places.get_mut(conversation) {
            if place.pending.is_some() || !self.interval_elapsed(place, now) {
                let newest = place.pending.take().map_or(it, |other| other.max(it));
                place.pending = Some(newest);
                return None;
            }
            place.last_sent = now;
        } else if places.len() < MAX_CONVERSATIONS {
            let place = ThrottleEntry {
                last_sent: now,
                pending: None,
            };
            places.insert(conversation.clone(), place);
        }
        Some(it)
    }

    /// Takes the kept values whose interval is over.
    pub(crate) fn take_due(&self, now: Timestamp) -> Vec<(ConversationId, T)> {
        let mut due = Vec::new();
        self.entries.lock().retain(|conversation, place| {
            if !self.interval_elapsed(place, now) {
                return true;
            }
            let Some(it) = place.pending.take() else {
                return false;
            };
            place.last_sent = now;
            due.push((conversation.clone(), it));
            true
        });
        due
    }

    fn interval_elapsed(&self, place: &ThrottleEntry<T>, now: Timestamp) -> bool {
        // A clock that jumps back must not extend the interval.
        now < place.last_sent || place.last_sent.saturating_add(self.interval) <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throttle_emits_the_first_value_at_once_and_the_newest_later() {
        let paced = ConversationThrottle::new(Duration::from_secs(1));
        let [a, b] = ["a", "b"].map(|id| ConversationId::new(id).expect("valid"));
        assert_eq!(paced.submit(&a, 1, Timestamp(0)), Some(1));
        assert_eq!(paced.submit(&b, 1, Timestamp(500)), Some(1));
        assert_eq!(paced.submit(&a, 3, Timestamp(600)), None);
        assert_eq!(paced.submit(&a, 2, Timestamp(999)), None);
        assert_eq!(paced.take_due(Timestamp(999)), []);
        assert_eq!(paced.submit(&a, 1, Timestamp(1_000)), None);
        assert_eq!(paced.take_due(Timestamp(1_000)), [(a.clone(), 3)]);
        assert_eq!(paced.submit(&a, 4, Timestamp(1_500)), None);
        assert_eq!(paced.take_due(Timestamp(2_000)), [(a.clone(), 4)]);
        assert_eq!(paced.take_due(Timestamp(3_000)), []);
        assert!(paced.entries.lock().is_empty());
        assert_eq!(paced.submit(&a, 5, Timestamp(3_000)), Some(5));
    }
}
