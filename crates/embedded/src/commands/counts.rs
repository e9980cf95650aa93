//! Counts among arguments: how many keys follow, how many items are wanted.

use crate::args::{Args, is};
use crate::error::{Error, SYNTAX};
use crate::number::parse_int;

/// `SINTERCARD`, `LMPOP` and `ZMPOP` without keys.
pub const NO_KEYS: Error = Error::fixed("ERR numkeys should be greater than 0");
/// `SINTERCARD` and `ZINTERCARD` with a negative limit.
pub const NEGATIVE_LIMIT: Error = Error::fixed("ERR LIMIT can't be negative");
const NO_COUNT: Error = Error::fixed("ERR count should be greater than 0");

/// A number of at least `min`; whatever else there is, is this error.
pub fn at_least(min: usize, arg: &[u8], error: Error) -> Result<usize, Error> {
    let count = parse_int(arg).and_then(|n| usize::try_from(n).ok());
    count.filter(|count| *count >= min).ok_or(error)
}

/// `numkeys key … first|last [COUNT count]` of `LMPOP` and `ZMPOP`.
pub struct MultiPop<'a> {
    pub keys: Args<'a>,
    pub from_first: bool,
    pub count: usize,
}

impl<'a> MultiPop<'a> {
    /// Reads them from behind the command's name.
    pub fn parse(args: Args<'a>, first: &str, last: &str) -> Result<Self, Error> {
        let keys = at_least(1, args[1], NO_KEYS)?;
        let (keys, rest) = args[2..].split_at_checked(keys).ok_or(SYNTAX)?;
        let [side, options @ ..] = rest else {
            return Err(SYNTAX);
        };
        let from_first = is(side, first);
        if !from_first && !is(side, last) {
            return Err(SYNTAX);
        }
        let count = match options {
            [] => 1,
            [option, count, rest @ ..] if is(option, "COUNT") => {
                let count = at_least(1, count, NO_COUNT)?;
                if !rest.is_empty() {
                    return Err(SYNTAX);
                }
                count
            }
            _ => return Err(SYNTAX),
        };
        Ok(Self {
            keys,
            from_first,
            count,
        })
    }
}
