//! Durations as text: `20`, `0.5`, `"500ms"`, `"20s"`, `"5m"`, `"1h"`, `"7d"`.
//!
//! A number without a unit is in seconds. The value is rounded to whole milliseconds.

use std::time::Duration;

/// Units with their length in milliseconds, in ascending order.
const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Maximum of a setting: ten years, which every TTL command can express.
pub const MAX_DURATION: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Parses a duration. The error says what is wrong.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = (text[..split].trim(), &text[split..]);
    let scale = if unit.is_empty() {
        1_000
    } else {
        UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, ms)| *ms)
            .ok_or_else(|| {
                format!("`{unit}` is not a unit of time; write ms, s, m, h or d after the number")
            })?
    };
    let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value: f64 = number
        .parse()
        .ok()
        .filter(|_| plain)
        .ok_or_else(|| format!("`{text}` is not a duration; write seconds, or text like \"500ms\", \"20s\", \"5m\", \"1h\""))?;
    let ms = (value * scale as f64).round();
    if ms > MAX_DURATION.as_millis() as f64 {
        return Err(format!("`{text}` is longer than ten years"));
    }
    Ok(Duration::from_millis(ms as u64))
}

/// Formats a duration as the shortest text that [`parse`] reads back as the same value.
pub fn format(duration: Duration) -> String {
    let ms = duration.as_millis() as u64;
    let (unit, scale) = UNITS
        .iter()
        .rev()
        .find(|(_, scale)| ms.is_multiple_of(*scale) && ms >= *scale)
        .unwrap_or(&UNITS[0]);
    format!("{}{unit}", ms / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_seconds_and_units_are_understood() {
        for (text, ms) in [
            ("20", 20_000),
            ("0.5", 500),
            ("500ms", 500),
            ("20s", 20_000),
            ("1.5 s", 1_500),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_rejected_with_the_reason() {
        for (text, reason) in [
            ("", "not a duration"),
            ("soon", "not a unit"),
            ("5 fortnights", "not a unit"),
            ("-5s", "not a duration"),
            ("1.2.3", "not a duration"),
            ("5s5", "not a unit"),
            ("99999d", "ten years"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_formatted_duration_parses_back_to_the_same_value() {
        for ms in [
            0, 1, 500, 1_000, 1_500, 60_000, 90_000, 3_600_000, 86_400_000,
        ] {
            let duration = Duration::from_millis(ms);
            assert_eq!(parse(&format(duration)), Ok(duration));
        }
        assert_eq!(format(Duration::from_secs(90)), "90s");
        assert_eq!(format(Duration::from_secs(3600)), "1h");
    }
}
