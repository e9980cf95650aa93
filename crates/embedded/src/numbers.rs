//! Numbers as Redis parses and prints them.

use crate::error::{CommandError, NOT_A_FLOAT, NOT_AN_INTEGER};
pub use crate::values::{format_int, parse_int};

pub fn parse_int_arg(arg: &[u8]) -> Result<i64, CommandError> {
    parse_int(arg).ok_or(NOT_AN_INTEGER)
}

/// Parses a decimal float as `strtod` does. Rejects NaN and numbers that are too large or too small for a float.
pub fn parse_float(arg: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(arg).ok()?;
    let number: f64 = text.parse().ok()?;
    let overflowed = number.is_infinite() && text.bytes().any(|c| c.is_ascii_digit());
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let underflowed = number == 0.0 && mantissa.bytes().any(|c| matches!(c, b'1'..=b'9'));
    (!number.is_nan() && !overflowed && !underflowed).then_some(number)
}

pub fn parse_float_arg(arg: &[u8]) -> Result<f64, CommandError> {
    parse_float(arg).ok_or(NOT_A_FLOAT)
}

/// Formats a float as C does with `%.{digits}g`.
pub fn format_g(number: f64, digits: usize) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if number.is_nan() {
        return "nan".to_owned();
    }
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trim(&format!("{number:.decimals$}"))
}

/// Formats a score as `ZSCORE` and similar commands do.
pub fn format_score(score: f64) -> String {
    // Nearly all scores are integers, for which the cheap format gives the same text.
    if score.fract() == 0.0 && score.abs() < 1e15 && !(score == 0.0 && score.is_sign_negative()) {
        return (score as i64).to_string();
    }
    format_g(score, 17)
}

/// Adds as `INCRBYFLOAT` does. Redis adds in 80-bit floats and prints 17 decimals, so 10.5 + 0.1 is 10.6. Exact decimal
/// addition gives the same result if both numbers have a short decimal form.
pub fn add_floats(a: &[u8], b: &[u8]) -> Result<String, CommandError> {
    const NOT_FINITE: CommandError =
        CommandError::from_static("ERR increment would produce NaN or Infinity");
    let (x, y) = (parse_float_arg(a)?, parse_float_arg(b)?);
    let sum = x + y;
    if !sum.is_finite() {
        return Err(NOT_FINITE);
    }
    if let (Some(a), Some(b)) = (parse_decimal(a), parse_decimal(b))
        && let Some(sum) = a.checked_add(b)
    {
        return Ok(format_decimal(round_to_f80(sum)));
    }
    let text = format!("{sum:.17}");
    Ok(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}

const DECIMAL_DIGITS: usize = 17;
const DECIMAL_SCALE: i128 = 10i128.pow(DECIMAL_DIGITS as u32);

/// Parses text as a multiple of 10^-17 and rounds it as an 80-bit float would. Returns `None` if the number has more
/// decimals or is too large.
fn parse_decimal(text: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(text).ok()?;
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1, text),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let exponent = i64::from(exponent.parse::<i32>().ok()?);
    let shift = DECIMAL_DIGITS as i64 + exponent - i64::try_from(fraction.len()).ok()?;
    let number = digits.checked_mul(10i128.checked_pow(u32::try_from(shift).ok()?)?)?;
    let fits = number / DECIMAL_SCALE < 1 << 70;
    fits.then(|| round_to_f80(sign * number))
}

/// Rounds a number to the 64 bits of an 80-bit float's mantissa, ties to even.
fn round_to_f80(number: i128) -> i128 {
    let round = |number: i128, unit: i128| {
        let (down, rest) = (number / unit, number % unit);
        down + i128::from(rest * 2 + down % 2 > unit)
    };
    let bits = (number.abs() / DECIMAL_SCALE)
        .checked_ilog2()
        .map_or(0, |log| log + 1);
    let rounded = match bits {
        // The fraction has the remaining bits.
        ..=64 => round(
            round(number.abs() << (64 - bits), DECIMAL_SCALE) * DECIMAL_SCALE,
            1 << (64 - bits),
        ),
        _ => round(number.abs(), DECIMAL_SCALE << (bits - 64)) * (DECIMAL_SCALE << (bits - 64)),
    };
    number.signum() * rounded
}

fn format_decimal(number: i128) -> String {
    let sign = if number < 0 { "-" } else { "" };
    let digits = format!(
        "{:0>width$}",
        number.unsigned_abs(),
        width = DECIMAL_DIGITS + 1
    );
    let (whole, fraction) = digits.split_at(digits.len() - DECIMAL_DIGITS);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_c() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.10000000000000001"),
            (1e17, "1e+17"),
            (123_456_789.0, "123456789"),
            (1.5e-7, "1.4999999999999999e-07"),
            (1e300, "1.0000000000000001e+300"),
            (3.25, "3.25"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(format_g(number, 17), text);
            assert_eq!(format_score(number), text);
        }
        assert_eq!(format_g(0.1, 14), "0.1");
    }

    #[test]
    fn decimals_add_up_as_people_expect() {
        for (a, b, sum) in [
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "-3.5", "-0.5"),
            ("0.1", "0.2", "0.3"),
        ] {
            assert_eq!(add_floats(a.as_bytes(), b.as_bytes()).as_deref(), Ok(sum));
        }
        for refused in ["nan", "1e400", "-1e400", "1e-400", "", " 1", "1 ", "0x"] {
            assert_eq!(parse_float(refused.as_bytes()), None, "{refused}");
        }
        assert_eq!(parse_float(b"0e-400"), Some(0.0));
        for zero in ["0e2147483647", "0.000000000000000000e-2147483648"] {
            assert_eq!(add_floats(zero.as_bytes(), b"1").as_deref(), Ok("1"));
        }
        assert!(add_floats(b"1", b"inf").is_err());
        assert!(add_floats(b"x", b"1").is_err());
    }
}
