//! How often something happens, in one number (GCRA).
//!
//! Always true: what is refused takes no place, so whoever waits as long as they are told is served.

use crate::config::BurstRate;

/// A rate, and how far ahead of it somebody may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct GcraRate {
    /// The time that one takes, in microseconds.
    micros_per_event: u64,
    /// How far ahead of now the last may be.
    tolerance_micros: u64,
}

/// Up to when somebody has used up their time, in microseconds since some beginning.
pub(super) type GcraState = u64;

impl GcraRate {
    pub(super) fn new(rate: BurstRate) -> Self {
        let each = 1_000_000 / u64::from(rate.per_second.max(1));
        let micros_per_event = each.max(1);
        Self {
            micros_per_event,
            tolerance_micros: micros_per_event * u64::from(rate.burst.max(1)),
        }
    }

    /// What is used up after one more at `now`, or how long it would have to wait, in milliseconds.
    pub(super) fn try_acquire(&self, used: GcraState, now: u64) -> Result<GcraState, u64> {
        let after = used.max(now) + self.micros_per_event;
        match after.saturating_sub(now + self.tolerance_micros) {
            0 => Ok(after),
            early => Err(early.div_ceil(1_000)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_admitted_then_one_event_per_interval() {
        let pace = GcraRate::new(BurstRate {
            per_second: 50,
            burst: 200,
        });
        let (mut used, now) = (0, 5_000_000);
        for _ in 0..200 {
            used = pace.try_acquire(used, now).unwrap();
        }
        assert_eq!(pace.try_acquire(used, now), Err(20));
        assert_eq!(pace.try_acquire(used, now + 19_000), Err(1));
        let later = pace.try_acquire(used, now + 20_000).unwrap();
        assert_eq!(pace.try_acquire(later, now + 20_000), Err(20));
        let rested = now + 10_000_000;
        assert_eq!(pace.try_acquire(later, rested), Ok(rested + 20_000));
    }
}
