//! Ranges by rank, score or member: read, count, store and remove.

use std::ops::Range;

use redis::Value;

use crate::commands::args::{Args, OptionArgs, is_option, resolve_range};
use crate::commands::reply::{array, integer};
use crate::db::Db;
use crate::error::{CommandError, CommandResult, SYNTAX_ERROR};
use crate::numbers::parse_int_arg;
use crate::values::{SharedBytes, StoredValue, ZSet};

use super::members_reply;
use super::range_bounds::{LexRange, ScoreRange, skip_ranks};

/// Meaning of the bounds of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZrangeBy {
    Rank,
    Score,
    Lex,
}

enum ZrangeBounds<'a> {
    Rank(i64, i64),
    Score(ScoreRange),
    Lex(LexRange<'a>),
}

impl<'a> ZrangeBounds<'a> {
    fn parse(by: ZrangeBy, min: &'a [u8], max: &'a [u8]) -> Result<Self, CommandError> {
        Ok(match by {
            ZrangeBy::Rank => Self::Rank(parse_int_arg(min)?, parse_int_arg(max)?),
            ZrangeBy::Score => Self::Score(ScoreRange::parse(min, max)?),
            ZrangeBy::Lex => Self::Lex(LexRange::parse(min, max)?),
        })
    }

    /// Ranks from the lower end, whatever the direction, without the first `skip` in that direction.
    fn ranks(&self, zset: &ZSet, reverse: bool, skip: usize) -> Range<usize> {
        let ranks = match self {
            Self::Rank(start, stop) => {
                let len = zset.len();
                let ranks = resolve_range(*start, *stop, len);
                match reverse {
                    true => len - ranks.end..len - ranks.start,
                    false => ranks,
                }
            }
            Self::Score(scores) => scores.ranks(zset),
            Self::Lex(members) => return members.ranks(zset, reverse, skip),
        };
        skip_ranks(ranks, reverse, skip)
    }
}

/// A parsed range request.
struct ZrangeQuery<'a> {
    bounds: ZrangeBounds<'a>,
    reverse: bool,
    offset: i64,
    limit: i64,
    with_scores: bool,
}

impl<'a> ZrangeQuery<'a> {
    /// Parses `min max [options]` from position `start` on. Options determine what the name of an older command does not.
    fn parse(
        args: Args<'a>,
        start: usize,
        mut by: Option<ZrangeBy>,
        mut reverse: Option<bool>,
    ) -> Result<Self, CommandError> {
        let stores = start == 3;
        let (mut offset, mut limit, mut with_scores) = (0, -1, false);
        let mut options = OptionArgs::starting_at(args, start + 2);
        while let Some(option) = options.next() {
            if !stores && is_option(option, "WITHSCORES") {
                with_scores = true;
            } else if is_option(option, "LIMIT") && options.remaining() >= 2 {
                (offset, limit) = (options.next_int()?, options.next_int()?);
            } else if reverse.is_none() && is_option(option, "REV") {
                reverse = Some(true);
            } else if by.is_none() && is_option(option, "BYLEX") {
                by = Some(ZrangeBy::Lex);
            } else if by.is_none() && is_option(option, "BYSCORE") {
                by = Some(ZrangeBy::Score);
            } else {
                return Err(SYNTAX_ERROR);
            }
        }
        let (by, reverse) = (by.unwrap_or(ZrangeBy::Rank), reverse.unwrap_or(false));
        if limit != -1 && by == ZrangeBy::Rank {
            return Err(CommandError::from_static(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && by == ZrangeBy::Lex {
            return Err(CommandError::from_static(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (mut min, mut max) = (args[start], args[start + 1]);
        if reverse && by != ZrangeBy::Rank {
            std::mem::swap(&mut min, &mut max);
        }
        if by == ZrangeBy::Rank {
            offset = 0;
        }
        Ok(Self {
            bounds: ZrangeBounds::parse(by, min, max)?,
            reverse,
            offset,
            limit,
            with_scores,
        })
    }

    /// Passes the members of the range to `take`, in order.
    fn with_members<'z, R>(
        &self,
        zset: &'z ZSet,
        take: impl FnOnce(&mut dyn Iterator<Item = (&'z SharedBytes, f64)>) -> R,
    ) -> R {
        // A negative offset skips all members. A negative limit means no limit.
        let skip = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let Range { start, end } = self.bounds.ranks(zset, self.reverse, skip);
        let limit = limit.min(end - start);
        match self.reverse {
            true => take(&mut zset.range(end - limit, end).rev()),
            false => take(&mut zset.range(start, start + limit)),
        }
    }

    fn to_reply(&self, zset: &ZSet) -> Value {
        self.with_members(zset, |items| members_reply(items, self.with_scores))
    }
}

/// `ZRANGE` and its older forms, whose names determine the meaning of the bounds and the direction.
pub fn zrange(
    db: &mut Db,
    args: Args<'_>,
    by: Option<ZrangeBy>,
    reverse: Option<bool>,
) -> CommandResult {
    let query = ZrangeQuery::parse(args, 2, by, reverse)?;
    let zset = db.get_collection::<ZSet>(args[1])?;
    Ok(zset.map_or_else(|| array([]), |zset| query.to_reply(zset)))
}

pub fn zrangestore(db: &mut Db, args: Args<'_>) -> CommandResult {
    let query = ZrangeQuery::parse(args, 3, None, None)?;
    let mut result = ZSet::default();
    if let Some(zset) = db.get_collection::<ZSet>(args[2])? {
        query.with_members(zset, |items| {
            for (member, score) in items {
                result.insert(member.clone(), score);
            }
        });
    }
    let len = result.len();
    db.replace_value(args[1], StoredValue::ZSet(result), None);
    Ok(integer(len))
}

/// `ZCOUNT` and `ZLEXCOUNT`.
pub fn zcount(db: &mut Db, args: Args<'_>, by: ZrangeBy) -> CommandResult {
    let bounds = ZrangeBounds::parse(by, args[2], args[3])?;
    let zset = db.get_collection::<ZSet>(args[1])?;
    let count = zset.map_or(0, |zset| bounds.ranks(zset, false, 0).len());
    Ok(integer(count))
}

/// The `ZREMRANGE` commands.
pub fn zremrange(db: &mut Db, args: Args<'_>, by: ZrangeBy) -> CommandResult {
    let bounds = ZrangeBounds::parse(by, args[2], args[3])?;
    let removed = db.update_existing::<ZSet, _>(args[1], |zset| {
        let ranks = bounds.ranks(zset, false, 0);
        let members = zset.range(ranks.start, ranks.end);
        let members: Vec<SharedBytes> = members.map(|(member, _)| member.clone()).collect();
        for member in &members {
            zset.remove(member);
        }
        Ok(members.len())
    })?;
    Ok(integer(removed.unwrap_or(0)))
}
