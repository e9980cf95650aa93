//! Arguments of `SCAN`, `HSCAN`, `SSCAN` and `ZSCAN`.

use crate::args::{Args, OptionArgs, is_option};
use crate::db::Db;
use crate::error::{CommandError, SYNTAX_ERROR};
use crate::glob;
use crate::value::Collection;

/// Arguments `cursor [MATCH pattern] [COUNT count] [TYPE type]`.
pub struct ScanArgs<'a> {
    pub cursor: u64,
    pub count: usize,
    pub kind: Option<&'a [u8]>,
    pattern: Option<&'a [u8]>,
}

impl<'a> ScanArgs<'a> {
    /// Parses the arguments with the cursor at position `at`. Only `SCAN` accepts `TYPE`.
    pub fn parse(db: &Db, args: Args<'a>, at: usize) -> Result<Self, CommandError> {
        let mut scan = Self {
            cursor: parse_cursor(args[at])?,
            count: 10,
            kind: None,
            pattern: None,
        };
        let mut options = OptionArgs::starting_at(args, at + 1);
        while let Some(option) = options.next() {
            if is_option(option, "COUNT") {
                let count = usize::try_from(options.next_int()?).map_err(|_| SYNTAX_ERROR)?;
                scan.count = Some(count).filter(|count| *count > 0).ok_or(SYNTAX_ERROR)?;
            } else if is_option(option, "MATCH") {
                scan.pattern = Some(options.next_value()?);
            } else if is_option(option, "TYPE") && at == 1 {
                db.require_redis_version("6.0.0", "SCAN with TYPE")?;
                scan.kind = Some(options.next_value()?);
            } else {
                return Err(SYNTAX_ERROR);
            }
        }
        Ok(scan)
    }

    /// Parses the arguments for the collection at `args[1]`. If the key does not exist, returns `None` and does not
    /// check the options.
    pub fn parse_for_collection<C: Collection>(
        db: &mut Db,
        args: Args<'a>,
    ) -> Result<Option<Self>, CommandError> {
        parse_cursor(args[2])?;
        match db.read::<C>(args[1])?.is_some() {
            true => Self::parse(db, args, 2).map(Some),
            false => Ok(None),
        }
    }

    /// Whether a key, field or member matches the pattern.
    pub fn matches_pattern(&self, item: &[u8]) -> bool {
        self.pattern
            .is_none_or(|pattern| glob::matches(pattern, item))
    }
}

fn parse_cursor(arg: &[u8]) -> Result<u64, CommandError> {
    let text = std::str::from_utf8(arg).unwrap_or_default();
    // As `strtoul` does: an empty text is 0, and a negative number wraps around.
    if arg.is_empty() {
        return Ok(0);
    }
    let negative = || text.parse().map(i64::cast_unsigned);
    text.parse()
        .or_else(|_| negative())
        .map_err(|_| CommandError::from_static("ERR invalid cursor"))
}
