//! What may be said of a conversation once in a time only.
//!
//! Always true: the first is said at once, and of what comes before the time is over the newest is said then. Where more
//! conversations are busy than are remembered, some are said sooner.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::context::Moment;
use crate::ids::ConversationId;

/// Conversations that are remembered.
const MOST: usize = 10_000;

pub(crate) struct Paced<T> {
    pause: Duration,
    places: Mutex<HashMap<ConversationId, Place<T>>>,
}

struct Place<T> {
    said: Moment,
    waiting: Option<T>,
}

impl<T: Copy + Ord> Paced<T> {
    pub(crate) fn new(pause: Duration) -> Self {
        Self {
            pause,
            places: Mutex::default(),
        }
    }

    /// Takes something to say. Given back if it may be said now.
    pub(crate) fn offer(&self, conversation: &ConversationId, it: T, now: Moment) -> Option<T> {
        let mut places = self.places.lock();
        if let Some(place) = places.get_mut(conversation) {
            if place.waiting.is_some() || !self.is_over(place, now) {
                let newest = place.waiting.take().map_or(it, |other| other.max(it));
                place.waiting = Some(newest);
                return None;
            }
            place.said = now;
        } else if places.len() < MOST {
            let place = Place {
                said: now,
                waiting: None,
            };
            places.insert(conversation.clone(), place);
        }
        Some(it)
    }

    /// What waited and may be said now.
    pub(crate) fn due(&self, now: Moment) -> Vec<(ConversationId, T)> {
        let mut due = Vec::new();
        self.places.lock().retain(|conversation, place| {
            if !self.is_over(place, now) {
                return true;
            }
            let Some(it) = place.waiting.take() else {
                return false;
            };
            place.said = now;
            due.push((conversation.clone(), it));
            true
        });
        due
    }

    fn is_over(&self, place: &Place<T>, now: Moment) -> bool {
        // A clock that was set back does not make it longer.
        now < place.said || place.said.plus(self.pause) <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_said_at_once_and_the_newest_when_the_time_is_over() {
        let paced = Paced::new(Duration::from_secs(1));
        let [a, b] = ["a", "b"].map(|id| ConversationId::new(id).expect("valid"));
        assert_eq!(paced.offer(&a, 1, Moment(0)), Some(1));
        assert_eq!(paced.offer(&b, 1, Moment(500)), Some(1));
        assert_eq!(paced.offer(&a, 3, Moment(600)), None);
        assert_eq!(paced.offer(&a, 2, Moment(999)), None);
        assert_eq!(paced.due(Moment(999)), []);
        assert_eq!(paced.offer(&a, 1, Moment(1_000)), None);
        assert_eq!(paced.due(Moment(1_000)), [(a.clone(), 3)]);
        assert_eq!(paced.offer(&a, 4, Moment(1_500)), None);
        assert_eq!(paced.due(Moment(2_000)), [(a.clone(), 4)]);
        assert_eq!(paced.due(Moment(3_000)), []);
        assert!(paced.places.lock().is_empty());
        assert_eq!(paced.offer(&a, 5, Moment(3_000)), Some(5));
    }
}
