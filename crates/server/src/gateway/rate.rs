//! How often something happens, in one number (GCRA).
//!
//! Always true: what is refused takes no place, so whoever waits as long as they are told is served.

use crate::config::Rate;

/// A rate, and how far ahead of it somebody may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// The time that one takes, in microseconds.
    each: u64,
    /// How far ahead of now the last may be.
    ahead: u64,
}

/// Up to when somebody has used up their time, in microseconds since some beginning.
pub(super) type Used = u64;

impl Pace {
    pub(super) fn new(rate: Rate) -> Self {
        let each = 1_000_000 / u64::from(rate.per_second.max(1));
        let each = each.max(1);
        Self {
            each,
            ahead: each * u64::from(rate.burst.max(1)),
        }
    }

    /// What is used up after one more at `now`, or how long it would have to wait, in milliseconds.
    pub(super) fn one(&self, used: Used, now: u64) -> Result<Used, u64> {
        let after = used.max(now) + self.each;
        match after.saturating_sub(now + self.ahead) {
            0 => Ok(after),
            early => Err(early.div_ceil(1_000)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_taken_then_one_at_a_time() {
        let pace = Pace::new(Rate {
            per_second: 50,
            burst: 200,
        });
        let (mut used, now) = (0, 5_000_000);
        for _ in 0..200 {
            used = pace.one(used, now).unwrap();
        }
        assert_eq!(pace.one(used, now), Err(20));
        assert_eq!(pace.one(used, now + 19_000), Err(1));
        let later = pace.one(used, now + 20_000).unwrap();
        assert_eq!(pace.one(later, now + 20_000), Err(20));
        let rested = now + 10_000_000;
        assert_eq!(pace.one(later, rested), Ok(rested + 20_000));
    }
}
