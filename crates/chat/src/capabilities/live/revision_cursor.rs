//! Tracks which revisions of a conversation a feed has delivered.
//!
//! Invariants:
//! 1. Revisions are delivered without gaps. A client that received revision `n` has received every change before it, so
//!    it can resume from `n`. The feed holds frames for which `has_gap_before` is true.
//! 2. The revisions of the last `MAX_TRACKED_MESSAGES` delivered messages are known, so an older revision of a message
//!    is never delivered after a newer one.
//!
//! A revision that was committed before the feed was opened can be published after that. It is delivered, because it
//! may be missing from the history that the first subscriber loaded.

use std::collections::VecDeque;

/// Number of delivered messages and changes whose revision is remembered.
const MAX_TRACKED_MESSAGES: usize = 64;

#[derive(Debug, Default)]
pub(super) struct RevisionCursor {
    /// Every revision up to this one was delivered, or was committed before the feed was opened.
    delivered_rev: u64,
    /// A resync delivered all changes up to this revision, so a frame about one of them is a duplicate.
    resynced_rev: u64,
    /// `seq` and `rev` of the most recent deliveries, the newest at the end.
    recent: VecDeque<(u64, u64)>,
}

impl RevisionCursor {
    /// Starts at the revision of the conversation when the feed is opened.
    pub(super) fn new(delivered_rev: u64) -> Self {
        Self {
            delivered_rev,
            ..Self::default()
        }
    }

    /// Returns the revision after which changes may be missing.
    pub(super) fn delivered_rev(&self) -> u64 {
        self.delivered_rev
    }

    /// Whether an earlier revision was not delivered yet.
    pub(super) fn has_gap_before(&self, rev: u64) -> bool {
        rev > self.delivered_rev + 1
    }

    /// Records a delivered revision of a message. False if this or a newer revision of the message was delivered
    /// before.
    pub(super) fn record(&mut self, seq: u64, rev: u64) -> bool {
        let known = self.recent.iter().rev().find(|(of, _)| *of == seq);
        if rev <= self.resynced_rev || known.is_some_and(|(_, known)| *known >= rev) {
            return false;
        }
        self.delivered_rev = self.delivered_rev.max(rev);
        if self.recent.len() == MAX_TRACKED_MESSAGES {
            self.recent.pop_front();
        }
        self.recent.push_back((seq, rev));
        true
    }

    /// Records that a resync delivered all changes up to this revision.
    pub(super) fn advance_after_resync(&mut self, rev: u64) {
        self.resynced_rev = self.resynced_rev.max(rev);
        self.delivered_rev = self.delivered_rev.max(rev);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_after_a_gap_is_early() {
        let mut revs = RevisionCursor::new(10);
        assert!(!revs.has_gap_before(11));
        assert!(revs.has_gap_before(12));
        assert!(revs.record(3, 11));
        assert!(!revs.has_gap_before(12));
        revs.advance_after_resync(20);
        assert!(!revs.has_gap_before(21));
    }

    #[test]
    fn an_older_revision_of_a_message_is_not_delivered_after_a_newer_one() {
        let mut revs = RevisionCursor::new(10);
        assert!(revs.record(3, 11));
        assert!(!revs.record(3, 9));
        assert!(!revs.record(3, 11));
        assert!(revs.record(3, 12));
    }

    #[test]
    fn a_change_older_than_the_first_read_is_delivered_when_published() {
        let mut revs = RevisionCursor::new(10);
        assert!(revs.record(3, 9));
        assert!(revs.record(4, 8));
        assert_eq!(revs.delivered_rev(), 10);
    }

    #[test]
    fn changes_already_read_from_the_database_are_not_delivered_again() {
        let mut revs = RevisionCursor::new(10);
        revs.advance_after_resync(20);
        assert!(!revs.record(1, 20));
        assert!(revs.record(1, 21));
    }
}
