//! Ranges by rank, score or member: read, counted, stored, removed.

use std::ops::Range;

use redis::Value as Answer;

use crate::args::{Args, Options, is, window};
use crate::db::Db;
use crate::error::{Error, Reply, SYNTAX};
use crate::number::int;
use crate::reply::{array, count};
use crate::value::{Blob, Value, ZSet};

use super::bounds::{Members, Scores, skipped};
use super::listed;

/// What a range counts by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

enum Bounds<'a> {
    Rank(i64, i64),
    Score(Scores),
    Member(Members<'a>),
}

impl<'a> Bounds<'a> {
    fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Self, Error> {
        Ok(match by {
            By::Rank => Self::Rank(int(min)?, int(max)?),
            By::Score => Self::Score(Scores::parse(min, max)?),
            By::Member => Self::Member(Members::parse(min, max)?),
        })
    }

    /// The ranks from the lower end, whichever way they will be walked, but for the first `skip` on that way.
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
        skipped(ranks, reverse, skip)
    }
}

/// What the options of a command may still say; each older command has decided some of it by its name.
struct Form {
    by: Option<By>,
    reverse: Option<bool>,
    stores: bool,
}

/// A range as it was asked for.
struct Query<'a> {
    bounds: Bounds<'a>,
    reverse: bool,
    offset: i64,
    limit: i64,
    with_scores: bool,
}

impl<'a> Query<'a> {
    /// Reads `min max [options]` from position `start` on.
    fn parse(args: Args<'a>, start: usize, form: &Form) -> Result<Self, Error> {
        let (mut by, mut reverse) = (form.by, form.reverse);
        let (mut offset, mut limit, mut with_scores) = (0, -1, false);
        let mut options = Options::from(args, start + 2);
        while let Some(option) = options.next() {
            if !form.stores && is(option, "WITHSCORES") {
                with_scores = true;
            } else if is(option, "LIMIT") && options.left() >= 2 {
                (offset, limit) = (options.int()?, options.int()?);
            } else if reverse.is_none() && is(option, "REV") {
                reverse = Some(true);
            } else if by.is_none() && is(option, "BYLEX") {
                by = Some(By::Member);
            } else if by.is_none() && is(option, "BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(SYNTAX);
            }
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if limit != -1 && by == By::Rank {
            return Err(Error::fixed(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && by == By::Member {
            return Err(Error::fixed(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (mut min, mut max) = (args[start], args[start + 1]);
        if reverse && by != By::Rank {
            std::mem::swap(&mut min, &mut max);
        }
        if by == By::Rank {
            offset = 0;
        }
        Ok(Self {
            bounds: Bounds::parse(by, min, max)?,
            reverse,
            offset,
            limit,
            with_scores,
        })
    }

    /// The members asked for, in order.
    fn visit<'z, R>(
        &self,
        zset: &'z ZSet,
        take: impl FnOnce(&mut dyn Iterator<Item = (&'z Blob, f64)>) -> R,
    ) -> R {
        // A negative offset skips everything, a negative limit is none.
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

    fn answer(&self, zset: &ZSet) -> Answer {
        self.visit(zset, |items| listed(items, self.with_scores))
    }
}

fn ranged(db: &mut Db, args: Args<'_>, by: Option<By>, reverse: Option<bool>) -> Reply {
    let query = Query::parse(
        args,
        2,
        &Form {
            by,
            reverse,
            stores: false,
        },
    )?;
    let zset = db.read::<ZSet>(args[1])?;
    Ok(zset.map_or_else(|| array([]), |zset| query.answer(zset)))
}

pub fn zrange(db: &mut Db, args: Args<'_>) -> Reply {
    ranged(db, args, None, None)
}

pub fn zrevrange(db: &mut Db, args: Args<'_>) -> Reply {
    ranged(db, args, Some(By::Rank), Some(true))
}

pub fn zrangebyscore(db: &mut Db, args: Args<'_>) -> Reply {
    ranged(db, args, Some(By::Score), Some(false))
}

pub fn zrevrangebyscore(db: &mut Db, args: Args<'_>) -> Reply {
    ranged(db, args, Some(By::Score), Some(true))
}

pub fn zrangebylex(db: &mut Db, args: Args<'_>) -> Reply {
    ranged(db, args, Some(By::Member), Some(false))
}

pub fn zrevrangebylex(db: &mut Db, args: Args<'_>) -> Reply {
    ranged(db, args, Some(By::Member), Some(true))
}

pub fn zrangestore(db: &mut Db, args: Args<'_>) -> Reply {
    let query = Query::parse(
        args,
        3,
        &Form {
            by: None,
            reverse: None,
            stores: true,
        },
    )?;
    let mut result = ZSet::default();
    if let Some(zset) = db.read::<ZSet>(args[2])? {
        query.visit(zset, |items| {
            for (member, score) in items {
                result.insert(member.clone(), score);
            }
        });
    }
    let len = result.len();
    db.put(args[1], Value::ZSet(result), None);
    Ok(count(len))
}

fn counted(db: &mut Db, args: Args<'_>, by: By) -> Reply {
    let bounds = Bounds::parse(by, args[2], args[3])?;
    let zset = db.read::<ZSet>(args[1])?;
    Ok(count(
        zset.map_or(0, |zset| bounds.ranks(zset, false, 0).len()),
    ))
}

pub fn zcount(db: &mut Db, args: Args<'_>) -> Reply {
    counted(db, args, By::Score)
}

pub fn zlexcount(db: &mut Db, args: Args<'_>) -> Reply {
    counted(db, args, By::Member)
}

fn remove(db: &mut Db, args: Args<'_>, by: By) -> Reply {
    let bounds = Bounds::parse(by, args[2], args[3])?;
    let removed = db.edit_existing::<ZSet, _>(args[1], |zset| {
        let ranks = bounds.ranks(zset, false, 0);
        let members = zset
            .range(ranks.start, ranks.end)
            .map(|(member, _)| member.clone());
        let members: Vec<Blob> = members.collect();
        for member in &members {
            zset.remove(member);
        }
        Ok(members.len())
    })?;
    Ok(count(removed.unwrap_or(0)))
}

pub fn zremrangebyrank(db: &mut Db, args: Args<'_>) -> Reply {
    remove(db, args, By::Rank)
}

pub fn zremrangebyscore(db: &mut Db, args: Args<'_>) -> Reply {
    remove(db, args, By::Score)
}

pub fn zremrangebylex(db: &mut Db, args: Args<'_>) -> Reply {
    remove(db, args, By::Member)
}
