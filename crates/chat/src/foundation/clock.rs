//! [`Timestamp`]: a point in time, and its ISO 8601 form.
//!
//! Invariant: nothing here reads a clock. The time comes from [`ChatContext::now`](crate::context::ChatContext::now).

use std::time::Duration;

use time::format_description::StaticFormatDescription;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};
use uuid::{Builder, Uuid};

/// ISO 8601 as JavaScript formats it.
const ISO8601: StaticFormatDescription =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

const NANOS_PER_MS: i128 = 1_000_000;

/// A point in time by the store's clock, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Adds a duration, saturating at `u64::MAX`.
    #[must_use]
    pub fn saturating_add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(duration_millis(time)))
    }

    /// The time earlier by a duration, at the earliest 1970.
    #[must_use]
    pub fn saturating_sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(duration_millis(time)))
    }

    /// Returns a new UUIDv7 with this timestamp. The random bits come from the thread-local generator, because the
    /// generator of the operating system costs one system call per id.
    pub fn new_uuid_v7(self) -> Uuid {
        Builder::from_unix_timestamp_millis(self.0, &rand::random()).into_uuid()
    }

    /// ISO 8601 in UTC with milliseconds, as JavaScript formats it: `2025-01-01T00:00:00.000Z`. Times after the year
    /// 9999 are shown as its last millisecond.
    pub fn to_iso8601(self) -> String {
        let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * NANOS_PER_MS);
        let time = time.unwrap_or(PrimitiveDateTime::MAX.assume_utc());
        time.format(&ISO8601)
            .expect("the format has no part that a date and time lack")
    }

    /// Parses ISO 8601 with a zone: `2025-01-01T00:00:00Z`, `2025-01-01T01:00:00.5+01:00`. Returns `None` for any other
    /// text and for times before 1970.
    pub fn parse_iso8601(text: &str) -> Option<Self> {
        if !matches!(text.as_bytes().get(10), Some(b'T' | b't' | b' ')) {
            return None;
        }
        let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        let ms = time.unix_timestamp_nanos().div_euclid(NANOS_PER_MS);
        u64::try_from(ms).ok().map(Self)
    }
}

/// A duration in whole milliseconds, saturating at `u64::MAX`.
pub fn duration_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_written_as_javascript_writes_them() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_735_689_600_001, "2025-01-01T00:00:00.001Z"),
            (1_767_225_599_000, "2025-12-31T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp(ms).to_iso8601(), text);
            assert_eq!(
                Timestamp::parse_iso8601(text),
                Some(Timestamp(ms)),
                "{text}"
            );
        }
    }

    #[test]
    fn timestamps_are_read_with_their_zone() {
        for (text, utc) in [
            ("2025-01-01T00:00:00Z", "2025-01-01T00:00:00.000Z"),
            ("2025-01-01T01:30:00.5+01:30", "2025-01-01T00:00:00.500Z"),
            (
                "2024-12-31T19:00:00.123456-05:00",
                "2025-01-01T00:00:00.123Z",
            ),
        ] {
            let read = Timestamp::parse_iso8601(text).expect("the text is ISO 8601");
            assert_eq!(read.to_iso8601(), utc, "{text}");
        }
        for wrong in [
            "",
            "2025-01-01",
            "2025-01-01T00:00:00",
            "2025-02-29T00:00:00Z",
            "2025-13-01T00:00:00Z",
            "2025-01-01T24:00:00Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+01:00",
            "2025-01-01T00:00:00.Z",
            "2025-01-01T00:00:00Zz",
            "2025-01-01T00:00:00+0100",
            "+025-01-01T00:00:00Z",
            "2025-01-0é:00:00Z",
            "99999-01-01T00:00:00Z",
        ] {
            assert_eq!(Timestamp::parse_iso8601(wrong), None, "{wrong}");
        }
    }
}
