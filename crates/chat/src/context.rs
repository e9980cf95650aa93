//! What every capability is given: the store, how keys are spelled, and the time.
//!
//! Always true: a capability knows the time from here only, and it is the store's.

use std::fmt::Write;
use std::time::Duration;

use parlor_store::Store;

use crate::keys::Keyspace;

/// The surroundings of a capability. Cloning copies pointers.
#[derive(Debug, Clone)]
pub struct Context {
    store: Store,
    keys: Keyspace,
}

impl Context {
    /// Puts a store and its keys together.
    pub fn new(store: Store, keys: Keyspace) -> Self {
        Self { store, keys }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// How keys are spelled.
    pub fn keys(&self) -> &Keyspace {
        &self.keys
    }

    /// The store's time.
    pub fn now(&self) -> Moment {
        Moment(self.store.clock().now_ms())
    }
}

/// A moment of the store's time, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// Milliseconds since the Unix epoch.
    pub const fn ms(self) -> u64 {
        self.0
    }

    /// The moment `time` later.
    #[must_use]
    pub fn plus(self, time: Duration) -> Self {
        Self(self.0.saturating_add(millis(time)))
    }

    /// ISO 8601 in UTC with milliseconds, as JavaScript writes it: `2025-01-01T00:00:00.000Z`.
    pub fn iso(self) -> String {
        let (days, ms) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = civil(days);
        let mut text = String::with_capacity(24);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
        write!(
            text,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
            ms % 1_000
        )
        .expect("a string takes everything");
        text
    }
}

/// A time in whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Year, month and day of a number of days since 1970-01-01. Years begin in March here, so that the leap day is their last.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_IN_400_YEARS: u64 = 146_097;
    let from_year_zero = days + 719_468;
    let era = from_year_zero / DAYS_IN_400_YEARS;
    let day_of_era = from_year_zero % DAYS_IN_400_YEARS;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_javascript_writes_them() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_735_689_600_001, "2025-01-01T00:00:00.001Z"),
            (1_767_225_599_000, "2025-12-31T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Moment(ms).iso(), text);
        }
    }
}
