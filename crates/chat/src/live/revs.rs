//! Which revisions of a conversation were told.
//!
//! Always true:
//! 1. Everything up to the floor was told, or is older than something that was. What is told above it is known one by one,
//!    up to [`MOST_ABOVE`], so that changes that are read again are not told again.
//! 2. Of the messages that were told last the revision is known, so that no older one follows.
//!
//! Revisions have no gaps, but a message that was changed twice before it was told leaves one: it is waited for until so
//! many came after it.

use std::collections::{BTreeSet, VecDeque};

/// Revisions that are remembered above the floor.
const MOST_ABOVE: usize = 256;
/// Messages whose revision is remembered.
const MOST_MESSAGES: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Revs {
    floor: u64,
    /// Up to this revision changes were read from the rows and told, so a frame of one is late.
    read: u64,
    above: BTreeSet<u64>,
    /// `seq` and `rev` of what was told last, the latest at the end.
    last: VecDeque<(u64, u64)>,
}

impl Revs {
    /// All up to this revision is known to whoever begins to follow now.
    pub(super) fn new(floor: u64) -> Self {
        Self {
            floor,
            ..Self::default()
        }
    }

    /// After which revision changes may be missing.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// Takes a revision of a message as told. False if it or a newer one was told before.
    pub(super) fn tell(&mut self, seq: u64, rev: u64) -> bool {
        let known = self.last.iter().rev().find(|(of, _)| *of == seq);
        let newer = known.is_none_or(|(_, known)| *known < rev);
        let first = self.see(rev);
        if !newer || !first || rev <= self.read {
            return false;
        }
        if self.last.len() == MOST_MESSAGES {
            self.last.pop_front();
        }
        self.last.push_back((seq, rev));
        true
    }

    /// Whether a revision is told for the first time, as far as that is known: one below the floor is.
    fn see(&mut self, rev: u64) -> bool {
        if rev <= self.floor {
            return true;
        }
        let first = self.above.insert(rev);
        if self.above.len() > MOST_ABOVE
            && let Some(lowest) = self.above.pop_first()
        {
            self.floor = lowest;
        }
        while self.above.remove(&(self.floor + 1)) {
            self.floor += 1;
        }
        first
    }

    /// All changes up to this revision were read and told.
    pub(super) fn raise(&mut self, rev: u64) {
        self.read = self.read.max(rev);
        if rev > self.floor {
            self.floor = rev;
            self.above = self.above.split_off(&(rev + 1));
            while self.above.remove(&(self.floor + 1)) {
                self.floor += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_revision_of_a_message_is_not_told_after_a_newer_one() {
        let mut revs = Revs::new(10);
        assert!(revs.tell(3, 12));
        assert!(!revs.tell(3, 11));
        assert!(!revs.tell(3, 12));
        assert!(revs.tell(4, 13));
        assert!(revs.tell(3, 14));
        assert_eq!(revs.floor(), 14);
    }

    #[test]
    fn changes_that_are_read_again_are_not_told_again() {
        let mut revs = Revs::new(10);
        // 11 was lost, and the messages are long forgotten.
        for nth in 0..MOST_MESSAGES as u64 * 2 {
            assert!(revs.tell(nth, 12 + nth));
        }
        assert_eq!(revs.floor(), 10);
        assert!(!revs.tell(0, 12));
        assert!(revs.tell(1_000, 11));
        assert_eq!(revs.floor(), 11 + MOST_MESSAGES as u64 * 2);
    }

    #[test]
    fn a_revision_that_never_comes_is_not_waited_for_for_ever() {
        let mut revs = Revs::new(0);
        for rev in 2..2 + MOST_ABOVE as u64 * 2 {
            assert!(revs.tell(rev, rev));
        }
        assert_eq!(revs.floor(), 1 + MOST_ABOVE as u64 * 2);
        assert!(revs.above.is_empty());
        revs.tell(1, 10_000);
        revs.raise(9_999);
        assert_eq!(revs.floor(), 10_000);
        assert!(!revs.tell(2_000, 9_999));
    }
}
