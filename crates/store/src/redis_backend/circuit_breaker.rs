//! The circuit breaker of one server.
//!
//! ```text
//! closed    -- MAX_CONSECUTIVE_FAILURES failures in a row --> open
//! open      -- first call after PROBE_INTERVAL            --> probing
//! probing   -- probe succeeds                             --> closed
//! probing   -- probe fails                                --> open for another PROBE_INTERVAL
//! probing   -- probe is dropped without a result          --> open, and the next call may probe
//! any state -- new connection (`close`)                   --> closed
//! ```
//!
//! Invariants:
//! 1. Only transport failures count. A success resets the count.
//! 2. While the breaker is open, calls are rejected at once.
//! 3. At most one probe is in flight. All other calls are rejected meanwhile.
//!
//! The caller passes the time, so that tests control it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Failures in a row that open the breaker.
pub(crate) const MAX_CONSECUTIVE_FAILURES: u32 = 5;
/// Time for which the breaker stays open before it allows a probe.
pub(crate) const PROBE_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(crate) struct CircuitBreaker {
    /// Whether `open` is set. With this flag a call on a closed breaker takes no lock.
    is_open: AtomicBool,
    failures: AtomicU32,
    open: Mutex<Option<OpenBreaker>>,
}

#[derive(Clone, Copy)]
struct OpenBreaker {
    opened_at: Instant,
    next_probe_at: Instant,
    probe_in_flight: bool,
}

/// Permission for one call. If it is dropped without a result, nothing changes, except that a probe becomes possible
/// again.
pub(crate) struct BreakerPermit<'a> {
    breaker: &'a CircuitBreaker,
    is_probe: bool,
}

/// Effect of a result on the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BreakerTransition {
    None,
    Opened,
    Closed,
}

impl CircuitBreaker {
    /// Returns a permit, or the time since the breaker opened.
    pub(crate) fn try_acquire(&self, now: Instant) -> Result<BreakerPermit<'_>, Duration> {
        let mut permit = BreakerPermit {
            breaker: self,
            is_probe: false,
        };
        if self.is_open.load(Ordering::Acquire)
            && let Some(open) = self.open.lock().as_mut()
        {
            if open.probe_in_flight || now < open.next_probe_at {
                return Err(now.saturating_duration_since(open.opened_at));
            }
            open.probe_in_flight = true;
            permit.is_probe = true;
        }
        Ok(permit)
    }

    /// Closes the breaker, because a new connection works.
    pub(crate) fn close(&self) -> BreakerTransition {
        let mut open = self.open.lock();
        self.failures.store(0, Ordering::Relaxed);
        self.is_open.store(false, Ordering::Release);
        if open.take().is_some() {
            BreakerTransition::Closed
        } else {
            BreakerTransition::None
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }
}

impl BreakerPermit<'_> {
    /// Records that the server replied, with whatever reply.
    pub(crate) fn record_success(mut self) -> BreakerTransition {
        if self.is_probe {
            self.is_probe = false;
            return self.breaker.close();
        }
        if self.breaker.failures.load(Ordering::Relaxed) != 0 {
            self.breaker.failures.store(0, Ordering::Relaxed);
        }
        BreakerTransition::None
    }

    /// Records that the server did not reply.
    pub(crate) fn record_failure(mut self, now: Instant) -> BreakerTransition {
        let breaker = self.breaker;
        let mut guard = breaker.open.lock();
        if let Some(open) = guard.as_mut() {
            if self.is_probe {
                self.is_probe = false;
                open.probe_in_flight = false;
                open.next_probe_at = now + PROBE_INTERVAL;
            }
            return BreakerTransition::None;
        }
        if breaker.failures.fetch_add(1, Ordering::Relaxed) + 1 < MAX_CONSECUTIVE_FAILURES {
            return BreakerTransition::None;
        }
        *guard = Some(OpenBreaker {
            opened_at: now,
            next_probe_at: now + PROBE_INTERVAL,
            probe_in_flight: false,
        });
        breaker.is_open.store(true, Ordering::Release);
        BreakerTransition::Opened
    }
}

impl Drop for BreakerPermit<'_> {
    fn drop(&mut self) {
        // A probe that was dropped proves nothing, so the next call may probe.
        if self.is_probe
            && let Some(open) = self.breaker.open.lock().as_mut()
        {
            open.probe_in_flight = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(breaker: &CircuitBreaker, now: Instant) -> BreakerTransition {
        breaker
            .try_acquire(now)
            .map_or(BreakerTransition::None, |permit| permit.record_failure(now))
    }

    fn opened(now: Instant) -> CircuitBreaker {
        let breaker = CircuitBreaker::default();
        for _ in 1..MAX_CONSECUTIVE_FAILURES {
            assert_eq!(fail(&breaker, now), BreakerTransition::None);
        }
        assert_eq!(fail(&breaker, now), BreakerTransition::Opened);
        breaker
    }

    #[test]
    fn the_breaker_opens_after_consecutive_failures_and_returns_the_remaining_pause() {
        let now = Instant::now();
        let breaker = opened(now);
        let later = now + PROBE_INTERVAL / 2;
        assert_eq!(breaker.try_acquire(later).err(), Some(PROBE_INTERVAL / 2));
    }

    #[test]
    fn a_success_resets_the_count() {
        let now = Instant::now();
        let breaker = CircuitBreaker::default();
        for _ in 0..10 {
            for _ in 1..MAX_CONSECUTIVE_FAILURES {
                assert_eq!(fail(&breaker, now), BreakerTransition::None);
            }
            assert_eq!(
                breaker
                    .try_acquire(now)
                    .map(BreakerPermit::record_success)
                    .ok(),
                Some(BreakerTransition::None)
            );
        }
        assert!(!breaker.is_open());
    }

    #[test]
    fn after_the_pause_one_call_probes_and_its_success_closes() {
        let now = Instant::now();
        let breaker = opened(now);
        let later = now + PROBE_INTERVAL;
        let probe = breaker.try_acquire(later).expect("the pause is over");
        assert!(breaker.try_acquire(later).is_err(), "one probe at a time");
        assert_eq!(probe.record_success(), BreakerTransition::Closed);
        assert!(breaker.try_acquire(later).is_ok());
    }

    #[test]
    fn a_failed_probe_opens_for_another_pause() {
        let now = Instant::now();
        let breaker = opened(now);
        let later = now + PROBE_INTERVAL;
        assert_eq!(fail(&breaker, later), BreakerTransition::None);
        assert!(breaker.try_acquire(later + PROBE_INTERVAL / 2).is_err());
        assert!(breaker.try_acquire(later + PROBE_INTERVAL).is_ok());
    }

    #[test]
    fn a_cancelled_probe_allows_the_next_probe() {
        let now = Instant::now();
        let breaker = opened(now);
        drop(breaker.try_acquire(now + PROBE_INTERVAL));
        assert!(breaker.try_acquire(now + PROBE_INTERVAL).is_ok());
    }

    #[test]
    fn a_new_connection_closes_the_breaker() {
        let now = Instant::now();
        let breaker = opened(now);
        assert_eq!(breaker.close(), BreakerTransition::Closed);
        assert_eq!(breaker.close(), BreakerTransition::None);
        assert!(breaker.try_acquire(now).is_ok());
    }
}
