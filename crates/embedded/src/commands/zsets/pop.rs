//! `ZPOPMIN`, `ZPOPMAX` and `ZMPOP`.

use redis::Value;

use crate::args::Args;
use crate::commands::counts::{MultiPop, at_least};
use crate::db::Db;
use crate::edit::Edit;
use crate::error::{MUST_BE_POSITIVE, Reply, SYNTAX};
use crate::reply::{NIL, array, bulk, score};
use crate::value::{Blob, ZSet};

use super::listed;

/// Takes members from the lower or upper end.
fn take(zset: &mut Edit<'_, ZSet>, lowest: bool, wanted: usize) -> Vec<(Blob, f64)> {
    let len = zset.len();
    let wanted = wanted.min(len);
    let owned = |(member, score): (&Blob, f64)| (member.clone(), score);
    let taken: Vec<_> = match lowest {
        true => zset.range(0, wanted).map(owned).collect(),
        false => zset.range(len - wanted, len).rev().map(owned).collect(),
    };
    for (member, _) in &taken {
        zset.remove(member);
    }
    taken
}

fn pop(db: &mut Db, args: Args<'_>, lowest: bool) -> Reply {
    let wanted = match args.get(2..) {
        Some([]) | None => 1,
        Some([wanted]) => at_least(0, wanted, MUST_BE_POSITIVE)?,
        Some(_) => return Err(SYNTAX),
    };
    let taken = db.edit_existing(args[1], |zset| Ok(take(zset, lowest, wanted)))?;
    let taken = taken.unwrap_or_default();
    Ok(listed(
        taken.iter().map(|(member, score)| (member, *score)),
        true,
    ))
}

pub fn zpopmin(db: &mut Db, args: Args<'_>) -> Reply {
    pop(db, args, true)
}

pub fn zpopmax(db: &mut Db, args: Args<'_>) -> Reply {
    pop(db, args, false)
}

pub fn zmpop(db: &mut Db, args: Args<'_>) -> Reply {
    let asked = MultiPop::parse(args, "MIN", "MAX")?;
    let pair = |(member, points): (Blob, f64)| array([bulk(&*member), score(points)]);
    for key in asked.keys {
        let taken = db.edit_existing(key, |zset| Ok(take(zset, asked.from_first, asked.count)))?;
        if let Some(taken) = taken {
            let taken: Value = array(taken.into_iter().map(pair));
            return Ok(array([bulk(*key), taken]));
        }
    }
    Ok(NIL)
}
