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

use crate::telemetry::StoreTelemetryEvent;

/// A step of the store's clock that is worth a line in the log.
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
    /// Store time at `start`, in milliseconds since the Unix epoch.
    offset_ms: AtomicI64,
    /// How far the time was moved by hand.
    test_shift_ms: AtomicU64,
}

impl StoreClock {
    /// A clock that starts with this machine's time and waits for the store's.
    pub(crate) fn new(manual: Option<ManualClock>) -> Self {
        let source = manual.map_or_else(
            || {
                StoreClockSource::Server(Arc::new(ServerClock {
                    started_at: monotonic(),
                    offset_ms: AtomicI64::new(to_i64(system_ms())),
                    test_shift_ms: AtomicU64::new(0),
                }))
            },
            StoreClockSource::Manual,
        );
        Self { source }
    }

    /// The store's time in milliseconds since the Unix epoch.
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

    /// Moves the time forward by hand, for tests. It stays moved when the store's clock is read again.
    pub fn advance(&self, by: Duration) {
        match &self.source {
            StoreClockSource::Manual(clock) => clock.advance(by),
            StoreClockSource::Server(time) => {
                let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
                time.test_shift_ms.fetch_add(by, Ordering::Relaxed);
            }
        }
    }

    /// Follows the reply of `TIME`; any other is ignored.
    pub(crate) fn adjust_to_time_reply(&self, reply: redis::Value, round_trip: Duration) {
        if let Ok((seconds, micros)) = redis::from_redis_value::<(u64, u64)>(reply) {
            self.adjust_to(seconds * 1_000 + micros / 1_000, round_trip);
        }
    }

    /// Follows the store's clock, which showed `store_ms` at some moment of the last `round_trip`.
    ///
    /// Differences that the round trip explains are left alone, so that the time does not jitter.
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
            StoreTelemetryEvent::ClockJumped { step_ms: step }.emit();
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
        i64::try_from(monotonic().duration_since(self.started_at).as_millis()).unwrap_or(i64::MAX)
    }
}

fn to_i64(ms: u64) -> i64 {
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
        let clock = StoreClock::new(None);
        clock.advance(Duration::from_secs(60));
        clock.adjust_to(5_000_000_000, Duration::ZERO);
        let now = clock.now_ms();
        assert!((5_000_060_000..5_000_120_000).contains(&now), "{now}");
    }

    #[test]
    fn a_difference_within_the_round_trip_is_no_step() {
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
