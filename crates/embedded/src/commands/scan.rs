//! The arguments that `SCAN`, `HSCAN`, `SSCAN` and `ZSCAN` share.

use crate::args::{Args, Options, is};
use crate::db::Db;
use crate::error::{Error, SYNTAX};
use crate::glob;
use crate::value::Collection;

/// `cursor [MATCH pattern] [COUNT count] [TYPE type]`.
pub struct Scan<'a> {
    pub cursor: u64,
    pub count: usize,
    pub kind: Option<&'a [u8]>,
    pattern: Option<&'a [u8]>,
}

impl<'a> Scan<'a> {
    /// Reads them with the cursor at position `at`; `TYPE` belongs to `SCAN` alone.
    pub fn parse(db: &Db, args: Args<'a>, at: usize) -> Result<Self, Error> {
        let mut scan = Self {
            cursor: cursor(args[at])?,
            count: 10,
            kind: None,
            pattern: None,
        };
        let mut options = Options::from(args, at + 1);
        while let Some(option) = options.next() {
            if is(option, "COUNT") {
                let count = usize::try_from(options.int()?).map_err(|_| SYNTAX)?;
                scan.count = Some(count).filter(|count| *count > 0).ok_or(SYNTAX)?;
            } else if is(option, "MATCH") {
                scan.pattern = Some(options.value()?);
            } else if is(option, "TYPE") && at == 1 {
                db.needs("6.0.0", "SCAN with TYPE")?;
                scan.kind = Some(options.value()?);
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(scan)
    }

    /// Reads them for the collection at `args[1]`. None where there is none: then the options do not matter.
    pub fn of<C: Collection>(db: &mut Db, args: Args<'a>) -> Result<Option<Self>, Error> {
        cursor(args[2])?;
        match db.read::<C>(args[1])?.is_some() {
            true => Self::parse(db, args, 2).map(Some),
            false => Ok(None),
        }
    }

    /// Whether a key, field or member is asked for.
    pub fn wants(&self, item: &[u8]) -> bool {
        self.pattern
            .is_none_or(|pattern| glob::matches(pattern, item))
    }
}

fn cursor(arg: &[u8]) -> Result<u64, Error> {
    let text = std::str::from_utf8(arg).unwrap_or_default();
    // As `strtoul` reads it: nothing is 0, and a negative number wraps around.
    if arg.is_empty() {
        return Ok(0);
    }
    let negative = || text.parse().map(i64::cast_unsigned);
    text.parse()
        .or_else(|_| negative())
        .map_err(|_| Error::fixed("ERR invalid cursor"))
}
