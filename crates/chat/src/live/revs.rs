//! Which revisions of a conversation were told.
//!
//! Always true:
//! 1. Revisions are told without a gap: whoever has seen one has been told every change before it, and can say so when they
//!    come back. Those who follow are asked to hold what comes early.
//! 2. Of the messages that were told last the revision is known, so that no older one follows.
//!
//! What was written before the room was opened and is published after that is told when it comes: it may be missing in what
//! the first follower has read.

use std::collections::VecDeque;

/// Messages whose revision is remembered.
const MAX_TRACKED_MESSAGES: usize = 64;

#[derive(Debug, Default)]
pub(super) struct RevisionCursor {
    /// Everything up to this revision was told, or written before the room was opened.
    delivered_rev: u64,
    /// Up to this revision changes were read from the rows and told, so a frame of one is late.
    resynced_rev: u64,
    /// `seq` and `rev` of what was told last, the latest at the end.
    recent: VecDeque<(u64, u64)>,
}

impl RevisionCursor {
    /// All up to this revision is known to whoever begins to follow now.
    pub(super) fn new(delivered_rev: u64) -> Self {
        Self {
            delivered_rev,
            ..Self::default()
        }
    }

    /// After which revision changes may be missing.
    pub(super) fn told(&self) -> u64 {
        self.delivered_rev
    }

    /// Whether something before this revision was not told yet.
    pub(super) fn has_gap_before(&self, rev: u64) -> bool {
        rev > self.delivered_rev + 1
    }

    /// Takes a revision of a message as told. False if it or a newer one was told before.
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

    /// All changes up to this revision were read and told.
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
    fn an_older_revision_of_a_message_is_not_told_after_a_newer_one() {
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
        assert_eq!(revs.told(), 10);
    }

    #[test]
    fn changes_already_read_from_the_database_are_not_delivered_again() {
        let mut revs = RevisionCursor::new(10);
        revs.advance_after_resync(20);
        assert!(!revs.record(1, 20));
        assert!(revs.record(1, 21));
    }
}
