//! Arguments of `SCAN`, `HSCAN`, `SSCAN` and `ZSCAN`.

use redis::Value;

use crate::commands::args::{Args, OptionArgs, is_option};
use crate::commands::reply::scan_page;
use crate::db::Db;
use crate::error::{CommandError, CommandResult, SYNTAX_ERROR};
use crate::glob;
use crate::values::Collection;

/// Arguments `cursor [MATCH pattern] [COUNT count] [TYPE type]`.
pub struct ScanArgs<'a> {
    pub cursor: u64,
    pub count: usize,
    pub value_type: Option<&'a [u8]>,
    pattern: Option<&'a [u8]>,
}

impl<'a> ScanArgs<'a> {
    /// Parses the arguments with the cursor at position `at`. Only `SCAN` accepts `TYPE`.
    pub fn parse(db: &Db, args: Args<'a>, at: usize) -> Result<Self, CommandError> {
        let mut scan = Self {
            cursor: parse_cursor(args[at])?,
            count: 10,
            value_type: None,
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
                scan.value_type = Some(options.next_value()?);
            } else {
                return Err(SYNTAX_ERROR);
            }
        }
        Ok(scan)
    }

    /// Whether a key, field or member matches the pattern.
    pub fn matches_pattern(&self, item: &[u8]) -> bool {
        self.pattern
            .is_none_or(|pattern| glob::matches(pattern, item))
    }
}

/// One step of `HSCAN`, `SSCAN` or `ZSCAN` on the collection at `args[1]`. `scan` adds the items that match to the list
/// and returns the next cursor. As in Redis, the options are checked only if the key exists.
pub fn scan_collection<C: Collection>(
    db: &mut Db,
    args: Args<'_>,
    scan: impl FnOnce(&C, &ScanArgs<'_>, &mut Vec<Value>) -> u64,
) -> CommandResult {
    parse_cursor(args[2])?;
    if db.get_collection::<C>(args[1])?.is_none() {
        return Ok(scan_page(0, Vec::new()));
    }
    let scan_args = ScanArgs::parse(db, args, 2)?;
    let mut found = Vec::new();
    let next = match db.get_collection::<C>(args[1])? {
        Some(collection) => scan(collection, &scan_args, &mut found),
        None => 0,
    };
    Ok(scan_page(next, found))
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
