//! Parses counts: the number of keys that follow, and the number of items to return.

use crate::commands::args::{Args, is_option};
use crate::error::{CommandError, SYNTAX_ERROR};
use crate::numbers::parse_int;

/// Error of `SINTERCARD`, `LMPOP` and `ZMPOP` without keys.
pub const NO_KEYS: CommandError = CommandError::from_static("ERR numkeys should be greater than 0");
const NO_COUNT: CommandError = CommandError::from_static("ERR count should be greater than 0");

/// Parses a count of at least `min`. Returns `error` for any other argument.
pub fn parse_count(min: usize, arg: &[u8], error: CommandError) -> Result<usize, CommandError> {
    let count = parse_int(arg).and_then(|n| usize::try_from(n).ok());
    count.filter(|count| *count >= min).ok_or(error)
}

/// Parses the limit of `SINTERCARD` and `ZINTERCARD`, in which 0 means no limit.
pub fn parse_limit(arg: &[u8]) -> Result<usize, CommandError> {
    const NEGATIVE: CommandError = CommandError::from_static("ERR LIMIT can't be negative");
    parse_count(0, arg, NEGATIVE).map(|limit| if limit == 0 { usize::MAX } else { limit })
}

/// Arguments `numkeys key … first|last [COUNT count]` of `LMPOP` and `ZMPOP`.
pub struct MpopArgs<'a> {
    pub keys: Args<'a>,
    pub from_start: bool,
    pub count: usize,
}

impl<'a> MpopArgs<'a> {
    /// Parses the arguments after the command's name.
    pub fn parse(args: Args<'a>, first: &str, last: &str) -> Result<Self, CommandError> {
        let keys = parse_count(1, args[1], NO_KEYS)?;
        let (keys, rest) = args[2..].split_at_checked(keys).ok_or(SYNTAX_ERROR)?;
        let [side, options @ ..] = rest else {
            return Err(SYNTAX_ERROR);
        };
        let from_start = is_option(side, first);
        if !from_start && !is_option(side, last) {
            return Err(SYNTAX_ERROR);
        }
        let count = match options {
            [] => 1,
            [option, count, rest @ ..] if is_option(option, "COUNT") => {
                let count = parse_count(1, count, NO_COUNT)?;
                if !rest.is_empty() {
                    return Err(SYNTAX_ERROR);
                }
                count
            }
            _ => return Err(SYNTAX_ERROR),
        };
        Ok(Self {
            keys,
            from_start,
            count,
        })
    }
}
