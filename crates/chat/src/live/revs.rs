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
const MOST_MESSAGES: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Revs {
    /// Everything up to this revision was told, or written before the room was opened.
    told: u64,
    /// Up to this revision changes were read from the rows and told, so a frame of one is late.
    read: u64,
    /// `seq` and `rev` of what was told last, the latest at the end.
    last: VecDeque<(u64, u64)>,
}

impl Revs {
    /// All up to this revision is known to whoever begins to follow now.
    pub(super) fn new(told: u64) -> Self {
        Self {
            told,
            ..Self::default()
        }
    }

    /// After which revision changes may be missing.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// Whether something before this revision was not told yet.
    pub(super) fn is_early(&self, rev: u64) -> bool {
        rev > self.told + 1
    }

    /// Takes a revision of a message as told. False if it or a newer one was told before.
    pub(super) fn tell(&mut self, seq: u64, rev: u64) -> bool {
        let known = self.last.iter().rev().find(|(of, _)| *of == seq);
        if rev <= self.read || known.is_some_and(|(_, known)| *known >= rev) {
            return false;
        }
        self.told = self.told.max(rev);
        if self.last.len() == MOST_MESSAGES {
            self.last.pop_front();
        }
        self.last.push_back((seq, rev));
        true
    }

    /// All changes up to this revision were read and told.
    pub(super) fn raise(&mut self, rev: u64) {
        self.read = self.read.max(rev);
        self.told = self.told.max(rev);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_gap_is_early() {
        let mut revs = Revs::new(10);
        assert!(!revs.is_early(11));
        assert!(revs.is_early(12));
        assert!(revs.tell(3, 11));
        assert!(!revs.is_early(12));
        revs.raise(20);
        assert!(!revs.is_early(21));
    }

    #[test]
    fn an_older_revision_of_a_message_is_not_told_after_a_newer_one() {
        let mut revs = Revs::new(10);
        assert!(revs.tell(3, 11));
        assert!(!revs.tell(3, 9));
        assert!(!revs.tell(3, 11));
        assert!(revs.tell(3, 12));
    }

    #[test]
    fn what_was_written_before_the_room_was_opened_is_told_when_it_is_published() {
        let mut revs = Revs::new(10);
        assert!(revs.tell(3, 9));
        assert!(revs.tell(4, 8));
        assert_eq!(revs.told(), 10);
    }

    #[test]
    fn changes_that_were_read_are_not_told_again() {
        let mut revs = Revs::new(10);
        revs.raise(20);
        assert!(!revs.tell(1, 20));
        assert!(revs.tell(1, 21));
    }
}
