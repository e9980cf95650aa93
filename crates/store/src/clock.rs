//! The store's time: this machine's monotonic clock plus the offset that the store's `TIME` gave.
//!
//! Always true:
//! 1. Between two looks at the store's clock time only runs forward, whatever happens to this machine's clock.
//! 2. Nodes need no common clock: all of them follow the store.
//! 3. This file is the only one of the crate that asks the system what time it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parlor_embedded::{Clock as EngineClock, ManualClock};

use crate::telemetry::Event;

/// A step of the store's clock that is worth a line in the log.
const JUMP_MS: u64 = 1_000;

/// The store's time. Clones share it.
#[derive(Clone)]
pub struct Clock {
    source: Source,
}

#[derive(Clone)]
enum Source {
    Manual(ManualClock),
    Store(Arc<StoreTime>),
}

struct StoreTime {
    start: Instant,
    /// Store time at `start`, in milliseconds since the Unix epoch.
    offset: AtomicI64,
    /// How far the time was moved by hand.
    shift: AtomicU64,
}

impl Clock {
    /// A clock that starts with this machine's time and waits for the store's.
    pub(crate) fn new(manual: Option<ManualClock>) -> Self {
        let source = manual.map_or_else(
            || {
                Source::Store(Arc::new(StoreTime {
                    start: monotonic(),
                    offset: AtomicI64::new(signed(system_ms())),
                    shift: AtomicU64::new(0),
                }))
            },
            Source::Manual,
        );
        Self { source }
    }

    /// The store's time in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        match &self.source {
            Source::Manual(clock) => clock.now_ms(),
            Source::Store(time) => {
                let now = time
                    .offset
                    .load(Ordering::Relaxed)
                    .saturating_add(time.running_ms());
                u64::try_from(now).unwrap_or(0) + time.shift.load(Ordering::Relaxed)
            }
        }
    }

    /// Moves the time forward by hand, for tests. It stays moved when the store's clock is read again.
    pub fn advance(&self, by: Duration) {
        match &self.source {
            Source::Manual(clock) => clock.advance(by),
            Source::Store(time) => {
                let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
                time.shift.fetch_add(by, Ordering::Relaxed);
            }
        }
    }

    /// Follows the reply of `TIME`; any other is ignored.
    pub(crate) fn follow_reply(&self, reply: redis::Value, round_trip: Duration) {
        if let Ok((seconds, micros)) = redis::from_redis_value::<(u64, u64)>(reply) {
            self.follow(seconds * 1_000 + micros / 1_000, round_trip);
        }
    }

    /// Follows the store's clock, which showed `store_ms` at some moment of the last `round_trip`.
    ///
    /// Differences that the round trip explains are left alone, so that the time does not jitter.
    pub(crate) fn follow(&self, store_ms: u64, round_trip: Duration) {
        let Source::Store(time) = &self.source else {
            return;
        };
        let half = i64::try_from(round_trip.as_millis() / 2).unwrap_or(0);
        let offset = signed(store_ms)
            .saturating_add(half)
            .saturating_sub(time.running_ms());
        let step = offset.saturating_sub(time.offset.load(Ordering::Relaxed));
        if step.unsigned_abs() <= half.unsigned_abs() + 1 {
            return;
        }
        time.offset.store(offset, Ordering::Relaxed);
        if step.unsigned_abs() > JUMP_MS + half.unsigned_abs() {
            Event::ClockJumped { step_ms: step }.emit();
        }
    }
}

impl EngineClock for Clock {
    fn now_ms(&self) -> u64 {
        Self::now_ms(self)
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clock({})", self.now_ms())
    }
}

impl StoreTime {
    fn running_ms(&self) -> i64 {
        i64::try_from(monotonic().duration_since(self.start).as_millis()).unwrap_or(i64::MAX)
    }
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// The machine's monotonic clock.
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}

/// The machine's wall clock, in milliseconds since the Unix epoch.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock"
)]
pub(crate) fn system_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_follows_the_store_and_keeps_what_was_moved_by_hand() {
        let clock = Clock::new(None);
        clock.advance(Duration::from_secs(60));
        clock.follow(5_000_000_000, Duration::ZERO);
        let now = clock.now_ms();
        assert!((5_000_060_000..5_000_120_000).contains(&now), "{now}");
    }

    #[test]
    fn a_difference_within_the_round_trip_is_no_step() {
        let clock = Clock::new(None);
        let Source::Store(time) = &clock.source else {
            unreachable!()
        };
        let before = time.offset.load(Ordering::Relaxed);
        clock.follow(clock.now_ms(), Duration::from_secs(20));
        assert_eq!(time.offset.load(Ordering::Relaxed), before);
    }

    #[test]
    fn a_manual_clock_obeys_nobody_else() {
        let manual = ManualClock::new(1_000);
        let clock = Clock::new(Some(manual.clone()));
        clock.follow(9_000, Duration::ZERO);
        assert_eq!(clock.now_ms(), 1_000);
        clock.advance(Duration::from_millis(5));
        assert_eq!(manual.now_ms(), 1_005);
    }
}
