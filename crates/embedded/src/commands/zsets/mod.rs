//! Sorted set commands. This file contains the commands on single members; ranges and operations on several keys have
//! their own files.
//!
//! Invariants:
//! 1. A stored score is never NaN. An operation that would give NaN is rejected or, where Redis does so, gives 0.

mod add;
mod pop;
mod range;
mod range_bounds;
mod set_operations;

use redis::Value;

use crate::commands::args::{Args, is_option};
use crate::commands::random_pick::{parse_random_count, random_index, random_indexes};
use crate::commands::reply::{NIL, array, bulk, integer, score_bulk};
use crate::commands::scan_args::scan_collection;
use crate::db::Db;
use crate::error::{CommandResult, SYNTAX_ERROR};
use crate::numbers::format_score;
use crate::values::{SharedBytes, ZSet};

pub use add::zadd;
pub use pop::{zmpop, zpop};
pub use range::{ZrangeBy, zcount, zrange, zrangestore, zremrange};
pub use set_operations::{ZsetOperation, reply_combined, store_combined, zintercard};

/// Maximum size of Redis's listpack encoding of a sorted set (`zset-max-listpack-entries`). The scores that `ZSCAN`
/// prints show the encoding, and so do ranges by member if scores differ.
const MAX_LISTPACK_ENTRIES: usize = 128;

/// Members, each followed by its score if `with_scores` is set.
fn members_reply<'a>(
    items: impl Iterator<Item = (&'a SharedBytes, f64)>,
    with_scores: bool,
) -> Value {
    let mut reply = Vec::with_capacity(items.size_hint().0 * if with_scores { 2 } else { 1 });
    for (member, score) in items {
        reply.push(bulk(&**member));
        if with_scores {
            reply.push(score_bulk(score));
        }
    }
    Value::Array(reply)
}

pub fn zrem(db: &mut Db, args: Args<'_>) -> CommandResult {
    let removed = db.update_existing::<ZSet, _>(args[1], |zset| {
        Ok(args[2..]
            .iter()
            .filter(|member| zset.remove(member).is_some())
            .count())
    })?;
    Ok(integer(removed.unwrap_or(0)))
}

pub fn zscore(db: &mut Db, args: Args<'_>) -> CommandResult {
    let found = db
        .get_collection::<ZSet>(args[1])?
        .and_then(|zset| zset.score(args[2]));
    Ok(found.map_or(NIL, score_bulk))
}

pub fn zmscore(db: &mut Db, args: Args<'_>) -> CommandResult {
    let zset = db.get_collection::<ZSet>(args[1])?;
    let one = |member: &&[u8]| {
        zset.and_then(|zset| zset.score(member))
            .map_or(NIL, score_bulk)
    };
    Ok(array(args[2..].iter().map(one)))
}

pub fn zrank(db: &mut Db, args: Args<'_>, reverse: bool) -> CommandResult {
    let zset = db.get_collection::<ZSet>(args[1])?;
    let rank = zset.and_then(|zset| {
        let rank = zset.rank(args[2])?;
        Some(if reverse { zset.len() - 1 - rank } else { rank })
    });
    Ok(rank.map_or(NIL, integer))
}

pub fn zrandmember(db: &mut Db, args: Args<'_>) -> CommandResult {
    let Some(wanted) = args.get(2) else {
        let zset = db.get_collection::<ZSet>(args[1])?;
        let picked = zset.and_then(|zset| zset.get_rank(random_index(zset.len())));
        return Ok(picked.map_or(NIL, |(member, _)| bulk(&**member)));
    };
    // As in Redis, a count that is not a number is reported before a wrong option, a count that is too large after it.
    parse_random_count(wanted, false)?;
    let with_scores = match args.get(3..) {
        Some([]) | None => false,
        Some([option]) if is_option(option, "WITHSCORES") => true,
        Some(_) => return Err(SYNTAX_ERROR),
    };
    let wanted = parse_random_count(wanted, with_scores)?;
    let Some(zset) = db.get_collection::<ZSet>(args[1])? else {
        return Ok(array([]));
    };
    let picked = random_indexes(zset.len(), wanted)
        .into_iter()
        .filter_map(|at| zset.get_rank(at));
    Ok(members_reply(picked, with_scores))
}

pub fn zscan(db: &mut Db, args: Args<'_>) -> CommandResult {
    scan_collection(db, args, |zset: &ZSet, scan, found| {
        let compact = zset.len() <= MAX_LISTPACK_ENTRIES;
        zset.scan(scan.cursor, scan.count, |member, score| {
            if scan.matches_pattern(member) {
                found.extend([bulk(&**member), bulk(format_zscan_score(score, compact))]);
            }
        })
    })
}

/// Formats a score as `ZSCAN` does: integers in a listpack are printed with all their digits.
fn format_zscan_score(score: f64, compact: bool) -> String {
    const MAX_LISTPACK_INT: f64 = (i64::MAX / 2) as f64;
    match compact && score.fract() == 0.0 && score.abs() <= MAX_LISTPACK_INT {
        true => (score as i64).to_string(),
        false => format_score(score),
    }
}
