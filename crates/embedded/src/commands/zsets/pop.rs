//! `ZPOPMIN`, `ZPOPMAX` and `ZMPOP`.

use redis::Value;

use crate::args::Args;
use crate::commands::counts::{MpopArgs, parse_count};
use crate::db::Db;
use crate::edit::JournaledCollection;
use crate::error::{CommandResult, MUST_BE_POSITIVE, SYNTAX_ERROR};
use crate::reply::{NIL, array, bulk, score_bulk};
use crate::value::{SharedBytes, ZSet};

use super::members_reply;

/// Removes and returns the members with the lowest or highest scores.
fn pop_members(
    zset: &mut JournaledCollection<'_, ZSet>,
    lowest: bool,
    wanted: usize,
) -> Vec<(SharedBytes, f64)> {
    let len = zset.len();
    let wanted = wanted.min(len);
    let owned = |(member, score): (&SharedBytes, f64)| (member.clone(), score);
    let taken: Vec<_> = match lowest {
        true => zset.range(0, wanted).map(owned).collect(),
        false => zset.range(len - wanted, len).rev().map(owned).collect(),
    };
    for (member, _) in &taken {
        zset.remove(member);
    }
    taken
}

fn zpop_generic(db: &mut Db, args: Args<'_>, lowest: bool) -> CommandResult {
    let wanted = match args.get(2..) {
        Some([]) | None => 1,
        Some([wanted]) => parse_count(0, wanted, MUST_BE_POSITIVE)?,
        Some(_) => return Err(SYNTAX_ERROR),
    };
    let taken = db.update_existing(args[1], |zset| Ok(pop_members(zset, lowest, wanted)))?;
    let taken = taken.unwrap_or_default();
    Ok(members_reply(
        taken.iter().map(|(member, score)| (member, *score)),
        true,
    ))
}

pub fn zpopmin(db: &mut Db, args: Args<'_>) -> CommandResult {
    zpop_generic(db, args, true)
}

pub fn zpopmax(db: &mut Db, args: Args<'_>) -> CommandResult {
    zpop_generic(db, args, false)
}

pub fn zmpop(db: &mut Db, args: Args<'_>) -> CommandResult {
    let asked = MpopArgs::parse(args, "MIN", "MAX")?;
    let pair = |(member, points): (SharedBytes, f64)| array([bulk(&*member), score_bulk(points)]);
    for key in asked.keys {
        let taken = db.update_existing(key, |zset| {
            Ok(pop_members(zset, asked.from_start, asked.count))
        })?;
        if let Some(taken) = taken {
            let taken: Value = array(taken.into_iter().map(pair));
            return Ok(array([bulk(*key), taken]));
        }
    }
    Ok(NIL)
}
