//! Ranges by rank, score or member: read, count, store and remove.

use std::ops::Range;

use redis::Value as Answer;

use crate::args::{Args, OptionArgs, is_option, window};
use crate::db::Db;
use crate::error::{CommandError, CommandResult, SYNTAX_ERROR};
use crate::number::parse_int_arg;
use crate::reply::{array, count};
use crate::value::{SharedBytes, Value, ZSet};

use super::bounds::{LexRange, ScoreRange, skip_ranks};
use super::members_reply;

/// Meaning of the bounds of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ZrangeBy {
    Rank,
    Score,
    Lex,
}

enum ZrangeBounds<'a> {
    Rank(i64, i64),
    Score(ScoreRange),
    Member(LexRange<'a>),
}

impl<'a> ZrangeBounds<'a> {
    fn parse(by: ZrangeBy, min: &'a [u8], max: &'a [u8]) -> Result<Self, CommandError> {
        Ok(match by {
            ZrangeBy::Rank => Self::Rank(parse_int_arg(min)?, parse_int_arg(max)?),
            ZrangeBy::Score => Self::Score(ScoreRange::parse(min, max)?),
            ZrangeBy::Lex => Self::Member(LexRange::parse(min, max)?),
        })
    }

    /// Ranks from the lower end, whatever the direction, without the first `skip` in that direction.
    fn ranks(&self, zset: &ZSet, reverse: bool, skip: usize) -> Range<usize> {
        let ranks = match self {
            Self::Rank(start, stop) => {
                let len = zset.len();
                let ranks = window(*start, *stop, len);
                if reverse {
                    len - ranks.end..len - ranks.start
                } else {
                    ranks
                }
            }
            Self::Score(scores) => scores.ranks(zset),
            Self::Member(members) => return members.ranks(zset, reverse, skip),
        };
        skip_ranks(ranks, reverse, skip)
    }
}

/// Parts of a range that the options of a command may determine. The name of an older command determines the rest.
struct ZrangeSyntax {
    by: Option<ZrangeBy>,
    reverse: Option<bool>,
    stores: bool,
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
    /// Parses `min max [options]` from position `start` on.
    fn parse(args: Args<'a>, start: usize, form: &ZrangeSyntax) -> Result<Self, CommandError> {
        let (mut by, mut reverse) = (form.by, form.reverse);
        let (mut offset, mut limit, mut with_scores) = (0, -1, false);
        let mut options = OptionArgs::starting_at(args, start + 2);
        while let Some(option) = options.next() {
            if !form.stores && is_option(option, "WITHSCORES") {
                with_scores = true;
            } else if is_option(option, "LIMIT") && options.left() >= 2 {
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
        let Range { start, end } = self.bounds.ranks(zset, self.reverse, skip);
        let limit = usize::try_from(self.limit)
            .unwrap_or(usize::MAX)
            .min(end - start);
        match self.reverse {
            true => take(&mut zset.range(end - limit, end).rev()),
            false => take(&mut zset.range(start, start + limit)),
        }
    }

    fn to_reply(&self, zset: &ZSet) -> Answer {
        self.with_members(zset, |items| members_reply(items, self.with_scores))
    }
}

fn zrange_generic(
    db: &mut Db,
    args: Args<'_>,
    by: Option<ZrangeBy>,
    reverse: Option<bool>,
) -> CommandResult {
    let query = ZrangeQuery::parse(
        args,
        2,
        &ZrangeSyntax {
            by,
            reverse,
            stores: false,
        },
    )?;
    let zset = db.read::<ZSet>(args[1])?;
    Ok(zset.map_or_else(|| array([]), |zset| query.to_reply(zset)))
}

pub fn zrange(db: &mut Db, args: Args<'_>) -> CommandResult {
    zrange_generic(db, args, None, None)
}

pub fn zrevrange(db: &mut Db, args: Args<'_>) -> CommandResult {
    zrange_generic(db, args, Some(ZrangeBy::Rank), Some(true))
}

pub fn zrangebyscore(db: &mut Db, args: Args<'_>) -> CommandResult {
    zrange_generic(db, args, Some(ZrangeBy::Score), Some(false))
}

pub fn zrevrangebyscore(db: &mut Db, args: Args<'_>) -> CommandResult {
    zrange_generic(db, args, Some(ZrangeBy::Score), Some(true))
}

pub fn zrangebylex(db: &mut Db, args: Args<'_>) -> CommandResult {
    zrange_generic(db, args, Some(ZrangeBy::Lex), Some(false))
}

pub fn zrevrangebylex(db: &mut Db, args: Args<'_>) -> CommandResult {
    zrange_generic(db, args, Some(ZrangeBy::Lex), Some(true))
}

pub fn zrangestore(db: &mut Db, args: Args<'_>) -> CommandResult {
    let query = ZrangeQuery::parse(
        args,
        3,
        &ZrangeSyntax {
            by: None,
            reverse: None,
            stores: true,
        },
    )?;
    let mut result = ZSet::default();
    if let Some(zset) = db.read::<ZSet>(args[2])? {
        query.with_members(zset, |items| {
            for (member, score) in items {
                result.insert(member.clone(), score);
            }
        });
    }
    let len = result.len();
    db.put(args[1], Value::ZSet(result), None);
    Ok(count(len))
}

fn zcount_generic(db: &mut Db, args: Args<'_>, by: ZrangeBy) -> CommandResult {
    let bounds = ZrangeBounds::parse(by, args[2], args[3])?;
    let zset = db.read::<ZSet>(args[1])?;
    Ok(count(
        zset.map_or(0, |zset| bounds.ranks(zset, false, 0).len()),
    ))
}

pub fn zcount(db: &mut Db, args: Args<'_>) -> CommandResult {
    zcount_generic(db, args, ZrangeBy::Score)
}

pub fn zlexcount(db: &mut Db, args: Args<'_>) -> CommandResult {
    zcount_generic(db, args, ZrangeBy::Lex)
}

fn zremrange_generic(db: &mut Db, args: Args<'_>, by: ZrangeBy) -> CommandResult {
    let bounds = ZrangeBounds::parse(by, args[2], args[3])?;
    let removed = db.update_existing::<ZSet, _>(args[1], |zset| {
        let ranks = bounds.ranks(zset, false, 0);
        let members = zset
            .range(ranks.start, ranks.end)
            .map(|(member, _)| member.clone());
        let members: Vec<SharedBytes> = members.collect();
        for member in &members {
            zset.remove(member);
        }
        Ok(members.len())
    })?;
    Ok(count(removed.unwrap_or(0)))
}

pub fn zremrangebyrank(db: &mut Db, args: Args<'_>) -> CommandResult {
    zremrange_generic(db, args, ZrangeBy::Rank)
}

pub fn zremrangebyscore(db: &mut Db, args: Args<'_>) -> CommandResult {
    zremrange_generic(db, args, ZrangeBy::Score)
}

pub fn zremrangebylex(db: &mut Db, args: Args<'_>) -> CommandResult {
    zremrange_generic(db, args, ZrangeBy::Lex)
}
