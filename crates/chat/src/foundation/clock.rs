//! [`Timestamp`]: a point in time, and its ISO 8601 form.

use std::time::Duration;

use uuid::{Builder, Uuid};

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

    /// Returns a new UUIDv7 with this timestamp. The random bits come from the thread-local generator, because the
    /// generator of the operating system costs one system call per id.
    pub fn new_uuid_v7(self) -> Uuid {
        Builder::from_unix_timestamp_millis(self.0, &rand::random()).into_uuid()
    }

    /// ISO 8601 in UTC with milliseconds, as JavaScript formats it: `2025-01-01T00:00:00.000Z`.
    pub fn to_iso8601(self) -> String {
        let (days, ms) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = date_from_days(days);
        let mut text = String::with_capacity(24);
        match year {
            ..10_000 => push_zero_padded::<4>(&mut text, year),
            _ => text += &year.to_string(),
        }
        for (sign, number) in [('-', month), ('-', day), ('T', ms / 3_600_000)] {
            text.push(sign);
            push_zero_padded::<2>(&mut text, number);
        }
        for number in [ms / 60_000 % 60, ms / 1_000 % 60] {
            text.push(':');
            push_zero_padded::<2>(&mut text, number);
        }
        text.push('.');
        push_zero_padded::<3>(&mut text, ms % 1_000);
        text.push('Z');
        text
    }

    /// Parses ISO 8601 with a zone: `2025-01-01T00:00:00Z`, `2025-01-01T01:00:00.5+01:00`. Returns `None` for any other
    /// text and for times before 1970.
    pub fn parse_iso8601(text: &str) -> Option<Self> {
        let (date, time) = text.split_at_checked(10)?;
        let (year, month, day) = parse_three_numbers(date, '-', [4, 2, 2])?;
        let time = time.strip_prefix(['T', 't', ' '])?;
        let (time, zone) = time.split_at(time.find(['Z', 'z', '+', '-'])?);
        let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let (hour, minute, second) = parse_three_numbers(time, ':', [2, 2, 2])?;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let longest = match month {
            2 => 28 + u64::from(leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        let valid = (1..=longest).contains(&day) && hour < 24 && minute < 60 && second < 60;
        let digits =
            (1..=9).contains(&fraction.len()) && fraction.bytes().all(|it| it.is_ascii_digit());
        if !valid || !digits || year < 1970 {
            return None;
        }
        let ms: u64 = format!("{fraction:0<3}")[..3].parse().ok()?;
        let seconds = (days_from_date(year, month, day) * 24 + hour) * 3_600 + minute * 60 + second;
        let utc = (seconds * 1_000 + ms).checked_add_signed(-parse_utc_offset_ms(zone)?)?;
        Some(Self(utc))
    }
}

/// Parses the zone of a timestamp: its offset from UTC in milliseconds, positive east of Greenwich.
fn parse_utc_offset_ms(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let ahead = if zone.starts_with('+') { 1 } else { -1 };
    let (hour, minute, _) = parse_three_numbers(&format!("{}:00", zone.get(1..)?), ':', [2, 2, 2])?;
    if hour > 23 || minute > 59 {
        return None;
    }
    let minutes = i64::try_from(hour * 60 + minute).ok()?;
    Some(ahead * minutes * 60_000)
}

/// Parses three numbers with exactly these numbers of digits, divided by a separator.
fn parse_three_numbers(text: &str, between: char, digits: [usize; 3]) -> Option<(u64, u64, u64)> {
    let mut parts = text.split(between);
    let mut number = |digits| {
        let part = parts.next()?;
        let plain = part.len() == digits && part.bytes().all(|it| it.is_ascii_digit());
        plain.then(|| part.parse().ok()).flatten()
    };
    let numbers = (number(digits[0])?, number(digits[1])?, number(digits[2])?);
    parts.next().is_none().then_some(numbers)
}

/// Days from 1970-01-01 to a date. Years begin in March, as in [`date_from_days`].
fn days_from_date(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// A duration in whole milliseconds, saturating at `u64::MAX`.
pub fn duration_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Appends a number with leading zeros.
fn push_zero_padded<const DIGITS: usize>(text: &mut String, mut number: u64) {
    let mut digits = ['0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = char::from(b'0' + (number % 10) as u8);
        number /= 10;
    }
    text.extend(digits);
}

/// Year, month and day of a number of days since 1970-01-01. Years begin in March, so that a leap day is the last day
/// of its year.
fn date_from_days(days: u64) -> (u64, u64, u64) {
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
            assert_eq!(Timestamp(ms).to_iso8601(), text);
            assert_eq!(
                Timestamp::parse_iso8601(text),
                Some(Timestamp(ms)),
                "{text}"
            );
        }
    }

    #[test]
    fn moments_are_read_with_their_zone() {
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
