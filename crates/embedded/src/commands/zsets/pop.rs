//! `ZPOPMIN`, `ZPOPMAX` and `ZMPOP`.

use redis::Value;

use crate::commands::args::Args;
use crate::commands::count_args::{MpopArgs, parse_count};
use crate::commands::reply::{NIL, array, bulk, score_bulk};
use crate::db::Db;
use crate::db::journaled_collection::JournaledCollection;
use crate::error::{CommandResult, MUST_BE_POSITIVE, SYNTAX_ERROR};
use crate::values::{SharedBytes, ZSet};

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
    let popped: Vec<_> = match lowest {
        true => zset.range(0, wanted).map(owned).collect(),
        false => zset.range(len - wanted, len).rev().map(owned).collect(),
    };
    for (member, _) in &popped {
        zset.remove(member);
    }
    popped
}

/// `ZPOPMIN` and `ZPOPMAX`.
pub fn zpop(db: &mut Db, args: Args<'_>, lowest: bool) -> CommandResult {
    let wanted = match args.get(2..) {
        Some([]) | None => 1,
        Some([wanted]) => parse_count(0, wanted, MUST_BE_POSITIVE)?,
        Some(_) => return Err(SYNTAX_ERROR),
    };
    let popped = db.update_existing(args[1], |zset| Ok(pop_members(zset, lowest, wanted)))?;
    let popped = popped.unwrap_or_default();
    Ok(members_reply(
        popped.iter().map(|(member, score)| (member, *score)),
        true,
    ))
}

pub fn zmpop(db: &mut Db, args: Args<'_>) -> CommandResult {
    let options = MpopArgs::parse(args, "MIN", "MAX")?;
    let pair = |(member, score): (SharedBytes, f64)| array([bulk(&*member), score_bulk(score)]);
    for key in options.keys {
        let popped = db.update_existing(key, |zset| {
            Ok(pop_members(zset, options.from_start, options.count))
        })?;
        if let Some(popped) = popped {
            let popped: Value = array(popped.into_iter().map(pair));
            return Ok(array([bulk(*key), popped]));
        }
    }
    Ok(NIL)
}
