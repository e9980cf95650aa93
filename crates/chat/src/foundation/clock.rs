//! [`Timestamp`]: a point in time, and its ISO 8601 form.
//!
//! Invariant: nothing here reads a clock. The time comes from [`ChatContext::now`](crate::context::ChatContext::now).

use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::fmt::temporal::{DateTimeParser, DateTimePrinter};
use uuid::{Builder, Uuid};

/// Date and time with milliseconds, as JavaScript formats them.
const MILLISECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
const UNIX_EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
/// Date and time of ISO 8601; a digit stands for any digit.
const DATE_AND_TIME: &[u8] = b"0000-00-00T00:00:00";

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
        let since_epoch = i64::try_from(self.0).unwrap_or(i64::MAX);
        let time = UNIX_EPOCH.saturating_add(SignedDuration::from_millis(since_epoch));
        format!("{}Z", MILLISECONDS.datetime_to_string(&time))
    }

    /// Parses ISO 8601 with a zone: `2025-01-01T00:00:00Z`, `2025-01-01T01:00:00.5+01:00`. Returns `None` for any other
    /// text and for times before 1970.
    pub fn parse_iso8601(text: &str) -> Option<Self> {
        // The parser accepts further forms.
        if !has_iso8601_form(text.as_bytes()) {
            return None;
        }
        let parsed = DateTimeParser::new().parse_pieces(text).ok()?;
        let offset = parsed.to_numeric_offset()?;
        let local = parsed.date().to_datetime(parsed.time()?);
        let since_epoch = local.duration_since(UNIX_EPOCH);
        let since_epoch = since_epoch - SignedDuration::from_secs(offset.seconds().into());
        // Not rounded: a negative part of a millisecond is before 1970, too.
        match since_epoch.is_negative() {
            true => None,
            false => u64::try_from(since_epoch.as_millis()).ok().map(Self),
        }
    }
}

/// True for a date, a time with seconds, perhaps with a fraction, and a zone: `Z`, `+01:00`.
fn has_iso8601_form(text: &[u8]) -> bool {
    let Some((date_and_time, rest)) = text.split_at_checked(DATE_AND_TIME.len()) else {
        return false;
    };
    let mut characters = date_and_time.iter().zip(DATE_AND_TIME);
    let has_form = characters.all(|(found, expected)| match expected {
        b'0' => found.is_ascii_digit(),
        b'T' => matches!(found, b'T' | b't' | b' '),
        separator => found == separator,
    });
    let digits = |text: &[u8]| text.iter().take_while(|it| it.is_ascii_digit()).count();
    let zone = match rest.strip_prefix(b".") {
        Some(fraction) if digits(fraction) == 0 => return false,
        Some(fraction) => &fraction[digits(fraction)..],
        None => rest,
    };
    let has_zone = match zone {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', offset @ ..] => {
            offset.len() == 5
                && digits(offset) == 2
                && offset[2] == b':'
                && digits(&offset[3..]) == 2
        }
        _ => false,
    };
    has_form && has_zone
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
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
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
    fn later_times_are_written_as_the_end_of_the_year_9999() {
        for ms in [253_402_300_800_000, u64::MAX] {
            assert_eq!(Timestamp(ms).to_iso8601(), "9999-12-31T23:59:59.999Z");
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
            "1969-12-31T23:59:59.9999Z",
            "2025-01-01T00:00:00Z[UTC]",
            "2025-01-01T00:00:00+01",
            "2025-01-01T00:00:00+01:00:30",
            "20250101T000000Z",
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
