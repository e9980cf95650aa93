//! Parses the arguments of a command.

use crate::error::{CommandError, SYNTAX_ERROR};
use crate::numbers::parse_int_arg;

/// Arguments of a command, its name included, as Redis counts them.
pub type Args<'a> = &'a [&'a [u8]];

/// Whether an argument is this option name, in any case.
pub fn is_option(arg: &[u8], option: &str) -> bool {
    arg.eq_ignore_ascii_case(option.as_bytes())
}

/// An argument as text for an error message. As in C, the text ends at the first zero byte.
pub fn to_error_text(arg: &[u8]) -> String {
    let text = arg.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// Iterator over the optional arguments at the end of a command.
pub struct OptionArgs<'a> {
    rest: std::slice::Iter<'a, &'a [u8]>,
}

impl<'a> OptionArgs<'a> {
    pub fn starting_at(args: Args<'a>, start: usize) -> Self {
        Self {
            rest: args.get(start..).unwrap_or_default().iter(),
        }
    }

    /// The value that must follow an option.
    pub fn next_value(&mut self) -> Result<&'a [u8], CommandError> {
        self.rest.next().copied().ok_or(SYNTAX_ERROR)
    }

    /// The integer that must follow an option.
    pub fn next_int(&mut self) -> Result<i64, CommandError> {
        parse_int_arg(self.next_value()?)
    }

    pub fn remaining(&self) -> usize {
        self.rest.len()
    }
}

impl<'a> Iterator for OptionArgs<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.rest.next().copied()
    }
}

/// Resolves the start and stop of `LRANGE` and similar commands, which count from the end if they are negative, to a
/// range inside `0..len`.
pub fn resolve_range(start: i64, stop: i64, len: usize) -> std::ops::Range<usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let from = if start < 0 {
        start.saturating_add(len).max(0)
    } else {
        start
    };
    let to = if stop < 0 {
        stop.saturating_add(len)
    } else {
        stop.min(len - 1)
    };
    if from > to || from >= len {
        return 0..0;
    }
    let index = |n: i64| usize::try_from(n).unwrap_or(0);
    index(from)..index(to) + 1
}

#[cfg(test)]
mod tests {
    use super::resolve_range;

    #[test]
    fn ranges_resolve_negative_indexes() {
        assert_eq!(resolve_range(0, -1, 5), 0..5);
        assert_eq!(resolve_range(-2, -1, 5), 3..5);
        assert_eq!(resolve_range(-100, 100, 5), 0..5);
        assert_eq!(resolve_range(3, 1, 5), 0..0);
        assert_eq!(resolve_range(5, 9, 5), 0..0);
        assert_eq!(resolve_range(0, -6, 5), 0..0);
        assert_eq!(resolve_range(0, 0, 0), 0..0);
        assert_eq!(resolve_range(i64::MIN, i64::MAX, 3), 0..3);
    }
}
