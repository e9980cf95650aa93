//! The store's time: the monotonic clock of this machine plus the offset that the server's `TIME` gave.
//!
//! Invariants:
//! 1. Between two adjustments the time only moves forward, whatever happens to this machine's wall clock.
//! 2. Nodes need no common clock, because all of them follow the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parlor_embedded::{Clock as EngineClock, ManualClock, SystemClock};

use crate::telemetry;

/// Smallest change of the offset that is logged.
const MIN_LOGGED_JUMP_MS: u64 = 1_000;

/// The store's time. Clones share it.
#[derive(Clone)]
pub struct StoreClock {
    source: StoreClockSource,
}

#[derive(Clone)]
enum StoreClockSource {
    Manual(ManualClock),
    Server(Arc<ServerClock>),
}

struct ServerClock {
    started_at: Instant,
    /// Server time at `started_at`, in ms since the Unix epoch.
    offset_ms: AtomicI64,
    /// Total shift by `advance`, in ms.
    test_shift_ms: AtomicU64,
}

impl StoreClock {
    /// Creates a clock. Without a manual clock it starts with this machine's time, until it is adjusted to the server's
    /// time.
    pub(crate) fn new(manual: Option<ManualClock>) -> Self {
        let source = manual.map_or_else(
            || {
                StoreClockSource::Server(Arc::new(ServerClock {
                    started_at: Instant::now(),
                    offset_ms: AtomicI64::new(to_i64(SystemClock.now_ms())),
                    test_shift_ms: AtomicU64::new(0),
                }))
            },
            StoreClockSource::Manual,
        );
        Self { source }
    }

    /// The store's time in ms since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        match &self.source {
            StoreClockSource::Manual(clock) => clock.now_ms(),
            StoreClockSource::Server(time) => {
                let now = time
                    .offset_ms
                    .load(Ordering::Relaxed)
                    .saturating_add(time.elapsed_ms());
                u64::try_from(now).unwrap_or(0) + time.test_shift_ms.load(Ordering::Relaxed)
            }
        }
    }

    /// Moves the time forward, for tests. Later adjustments to the server's time keep the shift.
    pub fn advance(&self, by: Duration) {
        match &self.source {
            StoreClockSource::Manual(clock) => clock.advance(by),
            StoreClockSource::Server(time) => {
                let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
                time.test_shift_ms.fetch_add(by, Ordering::Relaxed);
            }
        }
    }

    /// Adjusts the clock to the reply of `TIME`. Any other reply is ignored.
    pub(crate) fn adjust_to_time_reply(&self, reply: redis::Value, round_trip: Duration) {
        if let Ok((seconds, micros)) = redis::from_redis_value::<(u64, u64)>(reply) {
            self.adjust_to(seconds * 1_000 + micros / 1_000, round_trip);
        }
    }

    /// Adjusts the clock to the server's clock, which showed `store_ms` at some moment of the last `round_trip`.
    ///
    /// A difference that the round trip can explain is ignored, so that the time does not jitter.
    pub(crate) fn adjust_to(&self, store_ms: u64, round_trip: Duration) {
        let StoreClockSource::Server(time) = &self.source else {
            return;
        };
        let half = i64::try_from(round_trip.as_millis() / 2).unwrap_or(0);
        let offset = to_i64(store_ms)
            .saturating_add(half)
            .saturating_sub(time.elapsed_ms());
        let step = offset.saturating_sub(time.offset_ms.load(Ordering::Relaxed));
        if step.unsigned_abs() <= half.unsigned_abs() + 1 {
            return;
        }
        time.offset_ms.store(offset, Ordering::Relaxed);
        if step.unsigned_abs() > MIN_LOGGED_JUMP_MS + half.unsigned_abs() {
            telemetry::clock_jumped(step);
        }
    }
}

impl EngineClock for StoreClock {
    fn now_ms(&self) -> u64 {
        Self::now_ms(self)
    }
}

impl std::fmt::Debug for StoreClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoreClock({})", self.now_ms())
    }
}

impl ServerClock {
    fn elapsed_ms(&self) -> i64 {
        i64::try_from(Instant::now().duration_since(self.started_at).as_millis())
            .unwrap_or(i64::MAX)
    }
}

fn to_i64(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_follows_the_server_and_keeps_the_shift_of_a_test() {
        let clock = StoreClock::new(None);
        clock.advance(Duration::from_secs(60));
        clock.adjust_to(5_000_000_000, Duration::ZERO);
        let now = clock.now_ms();
        assert!((5_000_060_000..5_000_120_000).contains(&now), "{now}");
    }

    #[test]
    fn a_difference_within_the_round_trip_is_ignored() {
        let clock = StoreClock::new(None);
        let StoreClockSource::Server(time) = &clock.source else {
            unreachable!()
        };
        let before = time.offset_ms.load(Ordering::Relaxed);
        clock.adjust_to(clock.now_ms(), Duration::from_secs(20));
        assert_eq!(time.offset_ms.load(Ordering::Relaxed), before);
    }

    #[test]
    fn a_manual_clock_ignores_the_server_time() {
        let manual = ManualClock::new(1_000);
        let clock = StoreClock::new(Some(manual.clone()));
        clock.adjust_to(9_000, Duration::ZERO);
        assert_eq!(clock.now_ms(), 1_000);
        clock.advance(Duration::from_millis(5));
        assert_eq!(manual.now_ms(), 1_005);
    }
}
