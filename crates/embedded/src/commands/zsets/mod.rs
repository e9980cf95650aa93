//! Sorted set commands. This file contains the commands on single members; ranges and operations on several keys have
//! their own files.
//!
//! Invariants:
//! 1. A stored score is never NaN. An operation that would give NaN is rejected or, where Redis does so, gives 0.

mod add;
mod bounds;
mod combine;
mod pop;
mod range;

use redis::Value;

use crate::args::{Args, is_option};
use crate::commands::random;
use crate::commands::scan::ScanArgs;
use crate::db::Db;
use crate::error::{CommandResult, SYNTAX_ERROR};
use crate::number::format_score;
use crate::reply::{NIL, array, bulk, count, scan_page, score_bulk};
use crate::value::{SharedBytes, ZSet};

pub use add::{zadd, zincrby};
pub use combine::{zdiff, zdiffstore, zinter, zintercard, zinterstore, zunion, zunionstore};
pub use pop::{zmpop, zpopmax, zpopmin};
pub use range::{
    zcount, zlexcount, zrange, zrangebylex, zrangebyscore, zrangestore, zremrangebylex,
    zremrangebyrank, zremrangebyscore, zrevrange, zrevrangebylex, zrevrangebyscore,
};

/// Maximum size of Redis's listpack encoding of a sorted set (`zset-max-listpack-entries`). The encoding is visible in
/// a few replies.
const MAX_LISTPACK_ENTRIES: usize = 128;

/// Members, each followed by its score if `with_scores` is set.
fn members_reply<'a>(
    items: impl Iterator<Item = (&'a SharedBytes, f64)>,
    with_scores: bool,
) -> Value {
    let mut reply = Vec::with_capacity(items.size_hint().0 * if with_scores { 2 } else { 1 });
    for (member, points) in items {
        reply.push(bulk(&**member));
        if with_scores {
            reply.push(score_bulk(points));
        }
    }
    Value::Array(reply)
}

pub fn zrem(db: &mut Db, args: Args<'_>) -> CommandResult {
    let gone = db.update_existing::<ZSet, _>(args[1], |zset| {
        Ok(args[2..]
            .iter()
            .filter(|member| zset.remove(member).is_some())
            .count())
    })?;
    Ok(count(gone.unwrap_or(0)))
}

pub fn zscore(db: &mut Db, args: Args<'_>) -> CommandResult {
    let found = db
        .read::<ZSet>(args[1])?
        .and_then(|zset| zset.score(args[2]));
    Ok(found.map_or(NIL, score_bulk))
}

pub fn zmscore(db: &mut Db, args: Args<'_>) -> CommandResult {
    let zset = db.read::<ZSet>(args[1])?;
    let one = |member: &&[u8]| {
        zset.and_then(|zset| zset.score(member))
            .map_or(NIL, score_bulk)
    };
    Ok(array(args[2..].iter().map(one)))
}

pub fn zcard(db: &mut Db, args: Args<'_>) -> CommandResult {
    Ok(count(db.read::<ZSet>(args[1])?.map_or(0, ZSet::len)))
}

pub fn zrank(db: &mut Db, args: Args<'_>) -> CommandResult {
    let rank = db
        .read::<ZSet>(args[1])?
        .and_then(|zset| zset.rank(args[2]));
    Ok(rank.map_or(NIL, count))
}

pub fn zrevrank(db: &mut Db, args: Args<'_>) -> CommandResult {
    let zset = db.read::<ZSet>(args[1])?;
    let rank = zset.and_then(|zset| zset.rank(args[2]).map(|rank| zset.len() - 1 - rank));
    Ok(rank.map_or(NIL, count))
}

pub fn zrandmember(db: &mut Db, args: Args<'_>) -> CommandResult {
    let seed = db.rng_state();
    let Some(wanted) = args.get(2) else {
        let zset = db.read::<ZSet>(args[1])?;
        let picked = zset.and_then(|zset| zset.at(random::one(seed, zset.len())));
        return Ok(picked.map_or(NIL, |(member, _)| bulk(&**member)));
    };
    // As in Redis, a count that is not a number is reported before a wrong option, a count that is too large after it.
    random::parse_random_count(wanted, false)?;
    let with_scores = match args.get(3..) {
        Some([]) | None => false,
        Some([option]) if is_option(option, "WITHSCORES") => true,
        Some(_) => return Err(SYNTAX_ERROR),
    };
    let wanted = random::parse_random_count(wanted, with_scores)?;
    let Some(zset) = db.read::<ZSet>(args[1])? else {
        return Ok(array([]));
    };
    let picked = random::random_indexes(seed, zset.len(), wanted)
        .into_iter()
        .filter_map(|at| zset.at(at));
    Ok(members_reply(picked, with_scores))
}

pub fn zscan(db: &mut Db, args: Args<'_>) -> CommandResult {
    let scan = ScanArgs::parse_for_collection::<ZSet>(db, args)?;
    let Some((scan, zset)) = scan.zip(db.read::<ZSet>(args[1])?) else {
        return Ok(scan_page(0, Vec::new()));
    };
    let compact = zset.len() <= MAX_LISTPACK_ENTRIES;
    let mut found = Vec::new();
    let next = zset.scan(scan.cursor, scan.count, |member, points| {
        if scan.matches_pattern(member) {
            found.extend([bulk(&**member), bulk(format_zscan_score(points, compact))]);
        }
    });
    Ok(scan_page(next, found))
}

/// Formats a score as `ZSCAN` does: integers in a listpack are printed with all their digits.
fn format_zscan_score(score: f64, compact: bool) -> String {
    const MOST: f64 = (i64::MAX / 2) as f64;
    match compact && score.fract() == 0.0 && score.abs() <= MOST {
        true => (score as i64).to_string(),
        false => format_score(score),
    }
}
