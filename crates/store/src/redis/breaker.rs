//! The circuit breaker of one server.
//!
//! Always true:
//! 1. Closed: every call goes. After `LIMIT` transport failures in a row it opens.
//! 2. Open: calls are refused at once, until `PAUSE` is over; then exactly one call goes as a probe.
//! 3. A probe that succeeds, or a fresh connection, closes it; a probe that fails opens it for another pause.
//!
//! Time comes from the caller, so that tests move it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Failures in a row that open the breaker.
pub(crate) const LIMIT: u32 = 5;
/// How long it stays open before a probe.
pub(crate) const PAUSE: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(crate) struct Breaker {
    /// Mirrors `open` being there, so that the usual call takes no lock.
    is_open: AtomicBool,
    failures: AtomicU32,
    open: Mutex<Option<Open>>,
}

#[derive(Clone, Copy)]
struct Open {
    since: Instant,
    next_probe: Instant,
    probing: bool,
}

/// Permission for one call. Dropped without a verdict, it changes nothing but the right to probe.
pub(crate) struct Ticket<'a> {
    breaker: &'a Breaker,
    probe: bool,
}

/// What a verdict did to the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    Opened,
    Closed,
}

impl Breaker {
    /// Lets a call go, or says since when the server has not answered.
    pub(crate) fn admit(&self, now: Instant) -> Result<Ticket<'_>, Duration> {
        if !self.is_open.load(Ordering::Acquire) {
            return Ok(Ticket {
                breaker: self,
                probe: false,
            });
        }
        let mut guard = self.open.lock();
        let Some(open) = guard.as_mut() else {
            return Ok(Ticket {
                breaker: self,
                probe: false,
            });
        };
        if open.probing || now < open.next_probe {
            return Err(now.saturating_duration_since(open.since));
        }
        open.probing = true;
        Ok(Ticket {
            breaker: self,
            probe: true,
        })
    }

    /// Closes it because a fresh connection stands.
    pub(crate) fn reset(&self) -> Change {
        let mut open = self.open.lock();
        self.failures.store(0, Ordering::Relaxed);
        self.is_open.store(false, Ordering::Release);
        if open.take().is_some() {
            Change::Closed
        } else {
            Change::None
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }
}

impl Ticket<'_> {
    /// The server answered, whatever it said.
    pub(crate) fn success(mut self) -> Change {
        if self.probe {
            self.probe = false;
            return self.breaker.reset();
        }
        if self.breaker.failures.load(Ordering::Relaxed) != 0 {
            self.breaker.failures.store(0, Ordering::Relaxed);
        }
        Change::None
    }

    /// The server did not answer.
    pub(crate) fn failure(mut self, now: Instant) -> Change {
        let breaker = self.breaker;
        let mut guard = breaker.open.lock();
        if let Some(open) = guard.as_mut() {
            if self.probe {
                self.probe = false;
                open.probing = false;
                open.next_probe = now + PAUSE;
            }
            return Change::None;
        }
        if breaker.failures.fetch_add(1, Ordering::Relaxed) + 1 < LIMIT {
            return Change::None;
        }
        *guard = Some(Open {
            since: now,
            next_probe: now + PAUSE,
            probing: false,
        });
        breaker.is_open.store(true, Ordering::Release);
        Change::Opened
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        // A probe whose caller went away proved nothing: the next call may probe.
        if self.probe
            && let Some(open) = self.breaker.open.lock().as_mut()
        {
            open.probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic;

    fn fail(breaker: &Breaker, now: Instant) -> Change {
        breaker
            .admit(now)
            .map_or(Change::None, |ticket| ticket.failure(now))
    }

    fn opened(now: Instant) -> Breaker {
        let breaker = Breaker::default();
        for _ in 1..LIMIT {
            assert_eq!(fail(&breaker, now), Change::None);
        }
        assert_eq!(fail(&breaker, now), Change::Opened);
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_says_since_when() {
        let now = monotonic();
        let breaker = opened(now);
        let later = now + PAUSE / 2;
        assert_eq!(breaker.admit(later).err(), Some(PAUSE / 2));
    }

    #[test]
    fn a_success_in_between_starts_the_count_anew() {
        let now = monotonic();
        let breaker = Breaker::default();
        for _ in 0..10 {
            for _ in 1..LIMIT {
                assert_eq!(fail(&breaker, now), Change::None);
            }
            assert_eq!(
                breaker.admit(now).map(Ticket::success).ok(),
                Some(Change::None)
            );
        }
        assert!(!breaker.is_open());
    }

    #[test]
    fn after_the_pause_one_call_probes_and_its_success_closes() {
        let now = monotonic();
        let breaker = opened(now);
        let later = now + PAUSE;
        let probe = breaker.admit(later).expect("the pause is over");
        assert!(breaker.admit(later).is_err(), "one probe at a time");
        assert_eq!(probe.success(), Change::Closed);
        assert!(breaker.admit(later).is_ok());
    }

    #[test]
    fn a_failed_probe_opens_for_another_pause() {
        let now = monotonic();
        let breaker = opened(now);
        let later = now + PAUSE;
        assert_eq!(fail(&breaker, later), Change::None);
        assert!(breaker.admit(later + PAUSE / 2).is_err());
        assert!(breaker.admit(later + PAUSE).is_ok());
    }

    #[test]
    fn a_probe_that_was_given_up_lets_the_next_one_go() {
        let now = monotonic();
        let breaker = opened(now);
        drop(breaker.admit(now + PAUSE));
        assert!(breaker.admit(now + PAUSE).is_ok());
    }

    #[test]
    fn a_fresh_connection_closes_it_at_once() {
        let now = monotonic();
        let breaker = opened(now);
        assert_eq!(breaker.reset(), Change::Closed);
        assert_eq!(breaker.reset(), Change::None);
        assert!(breaker.admit(now).is_ok());
    }
}
