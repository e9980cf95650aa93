//! Rate limit with one number as its state (GCRA).
//!
//! Invariants:
//! 1. A rejected event does not count, so a client that waits for the returned time is accepted.

use crate::config::BurstRate;

/// Rate with a burst.
#[derive(Debug, Clone, Copy)]
pub(super) struct GcraRate {
    /// Microseconds per event.
    micros_per_event: u64,
    /// Maximum distance of the state from now, in microseconds: the burst.
    tolerance_micros: u64,
}

/// State: time up to which the rate is used up, in microseconds of the caller's clock.
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

    /// Counts an event at `now` and returns the new state; above the rate, the milliseconds to wait.
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
