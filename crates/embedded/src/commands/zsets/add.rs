//! `ZADD` and `ZINCRBY`, which is `ZADD INCR` under another name.

use smallvec::SmallVec;

use crate::commands::args::{Args, is_option};
use crate::commands::reply::{NIL, integer, score_bulk};
use crate::db::Db;
use crate::db::journaled_collection::JournaledCollection;
use crate::error::{CommandError, CommandResult, SYNTAX_ERROR};
use crate::numbers::parse_float_arg;
use crate::values::ZSet;

/// Options of `ZADD`.
#[derive(Default)]
struct ZaddOptions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
    ch: bool,
    incr: bool,
}

impl ZaddOptions {
    /// Sets the option of this name. Returns whether there is one.
    fn parse_flag(&mut self, option: &[u8]) -> bool {
        let flag = match option {
            _ if is_option(option, "NX") => &mut self.nx,
            _ if is_option(option, "XX") => &mut self.xx,
            _ if is_option(option, "GT") => &mut self.gt,
            _ if is_option(option, "LT") => &mut self.lt,
            _ if is_option(option, "CH") => &mut self.ch,
            _ if is_option(option, "INCR") => &mut self.incr,
            _ => return false,
        };
        *flag = true;
        true
    }

    fn check_compatible(&self, members: usize) -> Result<(), CommandError> {
        if self.nx && self.xx {
            return Err(CommandError::from_static(
                "ERR XX and NX options at the same time are not compatible",
            ));
        }
        let either = self.gt || self.lt;
        if either && self.nx || self.gt && self.lt {
            return Err(CommandError::from_static(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if self.incr && members > 1 {
            return Err(CommandError::from_static(
                "ERR INCR option supports a single increment-element pair",
            ));
        }
        Ok(())
    }

    /// Adds or updates a member as far as the options allow.
    fn apply_to_member(
        &self,
        zset: &mut JournaledCollection<'_, ZSet>,
        member: &[u8],
        score: f64,
    ) -> Result<ZaddOutcome, CommandError> {
        let Some(old) = zset.score(member) else {
            if self.xx {
                return Ok(ZaddOutcome::Skipped);
            }
            zset.insert_new(member, score);
            return Ok(ZaddOutcome::Added(score));
        };
        if self.nx {
            return Ok(ZaddOutcome::Skipped);
        }
        let new = if self.incr { old + score } else { score };
        if new.is_nan() {
            return Err(CommandError::from_static(
                "ERR resulting score is not a number (NaN)",
            ));
        }
        if self.lt && new >= old || self.gt && new <= old {
            return Ok(ZaddOutcome::Skipped);
        }
        if new == old {
            zset.record_unchanged_score(member, old);
            return Ok(ZaddOutcome::Unchanged(new));
        }
        zset.update_score(member, old, new);
        Ok(ZaddOutcome::Updated(new))
    }
}

enum ZaddOutcome {
    Skipped,
    Unchanged(f64),
    Added(f64),
    Updated(f64),
}

/// `ZADD`, or `ZINCRBY` with `incr`.
pub fn zadd(db: &mut Db, args: Args<'_>, incr: bool) -> CommandResult {
    let mut options = ZaddOptions {
        incr,
        ..ZaddOptions::default()
    };
    let flags = args[2..]
        .iter()
        .take_while(|option| options.parse_flag(option))
        .count();
    let pairs = &args[2 + flags..];
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(SYNTAX_ERROR);
    }
    options.check_compatible(pairs.len() / 2)?;
    let pairs = pairs.chunks_exact(2);
    let scores = pairs
        .clone()
        .map(|pair| parse_float_arg(pair[0]))
        .collect::<Result<SmallVec<[f64; 4]>, _>>()?;
    let change = |zset: &mut JournaledCollection<'_, ZSet>| {
        let (mut added, mut changed, mut last) = (0, 0, None);
        for (pair, score) in pairs.zip(scores) {
            last = match options.apply_to_member(zset, pair[1], score)? {
                ZaddOutcome::Skipped => None,
                ZaddOutcome::Unchanged(score) => Some(score),
                ZaddOutcome::Added(score) => {
                    added += 1;
                    Some(score)
                }
                ZaddOutcome::Updated(score) => {
                    changed += 1;
                    Some(score)
                }
            };
        }
        Ok((if options.ch { added + changed } else { added }, last))
    };
    let (changes, last) = match options.xx {
        true => db.update_existing(args[1], change)?.unwrap_or((0, None)),
        false => db.update_or_create(args[1], change)?,
    };
    Ok(match options.incr {
        true => last.map_or(NIL, score_bulk),
        false => integer(changes),
    })
}
