//! In-flight messages of this node: from before a message gets its id until it is applied.
//!
//! ```text
//! begin ──▶ id ──▶ queued ──▶ committed ──▶ applied: complete()
//!                    │            │
//!                    │            └─ store or database unavailable: dropped ──┐
//!                    ├─ commit unknown: commit_unknown() ─────────────────────┤
//!                    └─ not written: complete()                              ▼
//!                                                        replay from the start of the period
//! ```
//!
//! Invariants:
//! 1. A message begins before its id gets the time, so the id is not older than the period of the message.
//! 2. The watermark is not after the start of a period that has a message in flight, or one that is not applied.
//! 3. The cost of a message is one uncontended lock and one reference count; the memory does not depend on the number of
//!    messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering, fence};

use parking_lot::Mutex;

use crate::clock::Timestamp;

const ALL_APPLIED: u8 = 0;
const SOME_UNAPPLIED: u8 = 1;
const SOME_COMMITS_UNKNOWN: u8 = 2;

/// A period of about one second. Its reference count is the number of its messages in flight, plus one.
#[derive(Debug)]
struct Period {
    start: Timestamp,
    state: AtomicU8,
}

/// A message in flight. If it is dropped, the message counts as committed and not applied.
#[derive(Debug)]
#[must_use = "a message that is dropped is replayed"]
pub(super) struct InFlightMessage {
    period: Arc<Period>,
    is_complete: bool,
}

/// The in-flight messages of a node.
#[derive(Debug)]
pub(super) struct InFlightMessages(Mutex<InFlightState>);

#[derive(Debug)]
struct InFlightState {
    /// The oldest one first. The last one is the present one.
    periods: VecDeque<Arc<Period>>,
    unapplied: Option<UnappliedMessages>,
}

/// Messages that are committed and may not be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnappliedMessages {
    /// Start of the oldest period with such a message.
    pub(super) since: Timestamp,
    /// Until then, a commit with an unknown result can still become visible.
    pub(super) settled_at: Timestamp,
    /// Increases when further messages are found.
    findings: u64,
}

impl InFlightMessages {
    pub(super) fn new(now: Timestamp) -> Self {
        Self(Mutex::new(InFlightState {
            periods: VecDeque::from([Period::starting_at(now)]),
            unapplied: None,
        }))
    }

    /// Begins a message. Call it before the message gets its id.
    pub(super) fn begin(&self) -> Option<InFlightMessage> {
        let state = self.0.lock();
        // There is always a present period.
        let period = state.periods.back()?;
        Some(InFlightMessage {
            period: Arc::clone(period),
            is_complete: false,
        })
    }

    /// Begins a new period. Returns the watermark: all messages of this node with older ids are applied. `settled_at` is
    /// the time at which commits with an unknown result are decided.
    pub(super) fn advance(&self, now: Timestamp, settled_at: Timestamp) -> Timestamp {
        let mut state = self.0.lock();
        state.collect_unapplied(now, settled_at);
        state.periods.push_back(Period::starting_at(now));
        while state.periods.len() > 1 && state.periods.front().is_some_and(Period::is_over) {
            // A message can fail after it was collected and before its period was found to be over.
            state.collect_unapplied(now, settled_at);
            state.periods.pop_front();
        }
        let oldest = state.periods.front().map_or(now, |period| period.start);
        let unapplied = state.unapplied.map_or(oldest, |it| it.since);
        oldest.min(unapplied)
    }

    /// Messages that must be replayed.
    pub(super) fn unapplied(&self) -> Option<UnappliedMessages> {
        self.0.lock().unapplied
    }

    /// These messages were replayed, by a replay that began at `began`.
    pub(super) fn replayed(&self, replayed: UnappliedMessages, began: Timestamp) {
        let mut state = self.0.lock();
        if state.unapplied == Some(replayed) && began >= replayed.settled_at {
            state.unapplied = None;
        }
    }

    /// True if all messages of this node are applied.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.0.lock();
        let is_over = |period: &Arc<Period>| {
            Period::is_over(period) && period.state.load(Ordering::Acquire) == ALL_APPLIED
        };
        state.unapplied.is_none() && state.periods.iter().all(is_over)
    }
}

impl InFlightState {
    /// Collects the failures of all periods. A period remembers none of them afterwards.
    fn collect_unapplied(&mut self, now: Timestamp, settled_at: Timestamp) {
        for period in &self.periods {
            let settled_at = match period.state.swap(ALL_APPLIED, Ordering::AcqRel) {
                ALL_APPLIED => continue,
                SOME_UNAPPLIED => now,
                _ => settled_at,
            };
            let found = self.unapplied.get_or_insert(UnappliedMessages {
                since: period.start,
                settled_at,
                findings: 0,
            });
            found.since = found.since.min(period.start);
            found.settled_at = found.settled_at.max(settled_at);
            found.findings += 1;
        }
    }
}

impl Period {
    fn starting_at(start: Timestamp) -> Arc<Self> {
        Arc::new(Self {
            start,
            state: AtomicU8::new(ALL_APPLIED),
        })
    }

    /// True if the period has no message in flight. Its failures are visible to the caller then.
    fn is_over(period: &Arc<Self>) -> bool {
        let is_over = Arc::strong_count(period) == 1;
        fence(Ordering::Acquire);
        is_over
    }
}

impl InFlightMessage {
    /// The message is applied, or it was not written.
    pub(super) fn complete(mut self) {
        self.is_complete = true;
    }

    /// The message may be committed later.
    pub(super) fn commit_unknown(mut self) {
        self.is_complete = true;
        self.fail(SOME_COMMITS_UNKNOWN);
    }

    fn fail(&self, state: u8) {
        self.period.state.fetch_max(state, Ordering::AcqRel);
    }
}

impl Drop for InFlightMessage {
    fn drop(&mut self) {
        if !self.is_complete {
            self.fail(SOME_UNAPPLIED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Timestamp = Timestamp;

    #[test]
    fn the_watermark_follows_the_oldest_message_in_flight() {
        let messages = InFlightMessages::new(AT(10));
        let advance = |now: u64| messages.advance(AT(now), AT(now + 50)).as_millis();
        assert_eq!(advance(20), 20);
        let first = messages.begin().expect("a message");
        assert_eq!(advance(30), 20);
        let second = messages.begin().expect("a message");
        assert_eq!(advance(40), 20);
        assert!(!messages.is_idle());
        first.complete();
        assert_eq!(advance(50), 30);
        second.complete();
        assert_eq!(advance(60), 60);
        assert!(messages.is_idle());
    }

    #[test]
    fn a_message_that_is_not_applied_holds_the_watermark_until_it_is_replayed() {
        let messages = InFlightMessages::new(AT(10));
        let advance = |now: u64| messages.advance(AT(now), AT(now + 50)).as_millis();
        drop(messages.begin());
        assert!(!messages.is_idle());
        assert_eq!(advance(20), 10);
        let unapplied = messages.unapplied().expect("an unapplied message");
        assert_eq!((unapplied.since, unapplied.settled_at), (AT(10), AT(20)));
        drop(messages.begin());
        assert_eq!(advance(30), 10);
        messages.replayed(unapplied, AT(30));
        assert_eq!(advance(40), 10, "another message failed meanwhile");
        let unapplied = messages.unapplied().expect("an unapplied message");
        messages.replayed(unapplied, AT(40));
        assert_eq!(advance(50), 50);
    }

    #[test]
    fn an_unknown_commit_is_replayed_after_it_is_decided() {
        let messages = InFlightMessages::new(AT(10));
        messages.begin().expect("a message").commit_unknown();
        assert_eq!(messages.advance(AT(20), AT(70)), AT(10));
        let unapplied = messages.unapplied().expect("an unapplied message");
        messages.replayed(unapplied, AT(69));
        assert_eq!(messages.unapplied(), Some(unapplied));
        messages.replayed(unapplied, AT(70));
        assert_eq!(messages.unapplied(), None);
    }
}
