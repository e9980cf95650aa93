//! Which starts are written: one in a while for each user and conversation.
//!
//! Always true:
//! 1. There are never more than `most` entries. Who finds no room is let through and not remembered.
//! 2. A start that was let through and not completed leaves no entry, whether it failed or was given up.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::context::Moment;
use crate::ids::{ConversationId, UserId};

/// Between two cleanings for want of room, so that a full throttle does not make each start look at all entries.
const CLEAN_EVERY: Duration = Duration::from_millis(100);

type Place = (ConversationId, UserId);

/// The last starts of this node.
pub(super) struct Throttle {
    window: Duration,
    most: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<Place, Entry>,
    claims: u64,
    cleaned: Option<Moment>,
}

struct Entry {
    until: Moment,
    claim: u64,
}

/// A start that was let through.
#[must_use = "a claim that is dropped is given back"]
pub(super) struct Claim<'a> {
    throttle: &'a Throttle,
    held: Option<(Place, u64)>,
}

/// A stop on its way. A start that overtakes it may be undone by it, so the one after it has to go through.
#[must_use = "it clears when it is dropped"]
pub(super) struct Clearing<'a> {
    throttle: &'a Throttle,
    conversation: &'a ConversationId,
    user: &'a UserId,
}

impl Drop for Clearing<'_> {
    fn drop(&mut self) {
        self.throttle.clear(self.conversation, self.user);
    }
}

impl Throttle {
    pub(super) fn new(window: Duration, most: usize) -> Self {
        Self {
            window,
            most,
            inner: Mutex::default(),
        }
    }

    /// Lets a start through; none if there was one a moment ago.
    pub(super) fn claim(
        &self,
        conversation: &ConversationId,
        user: &UserId,
        now: Moment,
    ) -> Option<Claim<'_>> {
        let place = (conversation.clone(), user.clone());
        let mut inner = self.inner.lock();
        let known = inner.entries.get(&place);
        if known.is_some_and(|entry| now < entry.until) {
            return None;
        }
        if known.is_none() && inner.entries.len() >= self.most {
            let wait = inner
                .cleaned
                .is_some_and(|last| now < last.plus(CLEAN_EVERY));
            if !wait {
                inner.clean(now);
            }
            if inner.entries.len() >= self.most {
                return Some(Claim {
                    throttle: self,
                    held: None,
                });
            }
        }
        inner.claims += 1;
        let claim = inner.claims;
        let until = now.plus(self.window);
        inner.entries.insert(place.clone(), Entry { until, claim });
        Some(Claim {
            throttle: self,
            held: Some((place, claim)),
        })
    }

    /// The next start goes through.
    pub(super) fn clear(&self, conversation: &ConversationId, user: &UserId) {
        let place = (conversation.clone(), user.clone());
        self.inner.lock().entries.remove(&place);
    }

    /// The next start goes through, and so does the first after the returned value is dropped.
    pub(super) fn clearing<'a>(
        &'a self,
        conversation: &'a ConversationId,
        user: &'a UserId,
    ) -> Clearing<'a> {
        self.clear(conversation, user);
        Clearing {
            throttle: self,
            conversation,
            user,
        }
    }

    /// Forgets what is over.
    pub(super) fn clean(&self, now: Moment) {
        self.inner.lock().clean(now);
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.inner.lock().entries.len()
    }
}

impl Inner {
    fn clean(&mut self, now: Moment) {
        self.cleaned = Some(now);
        self.entries.retain(|_, entry| now < entry.until);
        self.entries.shrink_to(2 * self.entries.len());
    }
}

impl Claim<'_> {
    /// The start is done.
    pub(super) fn keep(mut self) {
        self.held = None;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let Some((place, claim)) = self.held.take() else {
            return;
        };
        let entries = &mut self.throttle.inner.lock().entries;
        // A later claim is not ours to give back.
        if entries
            .get(&place)
            .is_some_and(|entry| entry.claim == claim)
        {
            entries.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(nth: usize) -> Place {
        let conversation = ConversationId::new("c1").expect("valid");
        (conversation, UserId::new(format!("u{nth}")).expect("valid"))
    }

    fn passes(throttle: &Throttle, (conversation, user): &Place, now: u64) -> bool {
        let claim = throttle.claim(conversation, user, Moment(now));
        let passes = claim.is_some();
        claim.into_iter().for_each(Claim::keep);
        passes
    }

    #[test]
    fn a_full_throttle_makes_room_or_lets_through_without_remembering() {
        let throttle = Throttle::new(Duration::from_secs(2), 3);
        for (nth, now) in [(0, 0), (1, 1_000), (2, 1_000)] {
            assert!(passes(&throttle, &place(nth), now));
        }
        for _ in 0..2 {
            assert!(passes(&throttle, &place(3), 1_000), "not remembered");
        }
        assert_eq!(throttle.len(), 3);
        assert!(
            !passes(&throttle, &place(2), 1_000),
            "those inside are held"
        );
        assert!(passes(&throttle, &place(3), 2_000), "the first is over");
        assert!(!passes(&throttle, &place(3), 2_000), "and made room");
        throttle.clean(Moment(3_999));
        assert_eq!(throttle.len(), 1);
        throttle.clean(Moment(4_000));
        assert_eq!(throttle.len(), 0);
    }

    #[test]
    fn a_claim_that_is_given_up_leaves_a_later_one_alone() {
        let throttle = Throttle::new(Duration::from_secs(2), 3);
        let (conversation, user) = place(0);
        let claim = || throttle.claim(&conversation, &user, Moment(0));
        let first = claim().expect("the first");
        assert!(claim().is_none());
        drop(first);
        let second = claim().expect("the first was given back");
        throttle.clear(&conversation, &user);
        let third = claim().expect("cleared");
        drop(second);
        assert!(claim().is_none(), "the third is still there");
        third.keep();
        assert!(claim().is_none());
    }

    #[test]
    fn a_start_that_overtakes_a_stop_does_not_hold_the_next_one_back() {
        let throttle = Throttle::new(Duration::from_secs(2), 3);
        let place = place(0);
        assert!(passes(&throttle, &place, 0));
        let stop = throttle.clearing(&place.0, &place.1);
        assert!(passes(&throttle, &place, 0), "the stop was on its way");
        assert!(!passes(&throttle, &place, 0));
        drop(stop);
        assert!(passes(&throttle, &place, 0), "it may have undone the start");
    }
}
