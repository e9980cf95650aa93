//! Set commands. A command on several sets checks the type of every key before it reads a member.

use redis::Value;

use crate::commands::args::{Args, OptionArgs, is_option};
use crate::commands::count_args::{NO_KEYS, parse_count, parse_limit};
use crate::commands::random_pick::{parse_random_count, random_index, random_indexes};
use crate::commands::reply::{NIL, array, bulk, bulk_array, bulk_or_nil, flag, integer};
use crate::commands::scan_args::scan_collection;
use crate::db::Db;
use crate::error::{CommandError, CommandResult, MUST_BE_POSITIVE, SYNTAX_ERROR};
use crate::values::{Collection, Set, SharedBytes, StoredValue};

pub fn sadd(db: &mut Db, args: Args<'_>) -> CommandResult {
    db.update_or_create::<Set, _>(args[1], |set| {
        Ok(integer(
            args[2..].iter().filter(|member| set.insert(member)).count(),
        ))
    })
}

pub fn srem(db: &mut Db, args: Args<'_>) -> CommandResult {
    let removed = db.update_existing::<Set, _>(args[1], |set| {
        Ok(args[2..].iter().filter(|member| set.remove(member)).count())
    })?;
    Ok(integer(removed.unwrap_or(0)))
}

pub fn sismember(db: &mut Db, args: Args<'_>) -> CommandResult {
    Ok(flag(
        db.get_collection::<Set>(args[1])?
            .is_some_and(|set| set.contains(args[2])),
    ))
}

pub fn smismember(db: &mut Db, args: Args<'_>) -> CommandResult {
    let set = db.get_collection::<Set>(args[1])?;
    let one = |member: &&[u8]| flag(set.is_some_and(|set| set.contains(member)));
    Ok(array(args[2..].iter().map(one)))
}

fn members(set: &Set) -> Value {
    bulk_array(set.iter().map(|(member, ())| member))
}

pub fn smembers(db: &mut Db, args: Args<'_>) -> CommandResult {
    Ok(db
        .get_collection::<Set>(args[1])?
        .map_or_else(|| array([]), members))
}

pub fn smove(db: &mut Db, args: Args<'_>) -> CommandResult {
    let (source, target, member) = (args[1], args[2], args[3]);
    let Some(set) = db.get_collection::<Set>(source)? else {
        return Ok(flag(false));
    };
    let is_member = set.contains(member);
    db.get_collection::<Set>(target)?;
    if is_member && source != target {
        db.update_existing::<Set, _>(source, |set| Ok(set.remove(member)))?;
        db.update_or_create::<Set, _>(target, |set| Ok(set.insert(member)))?;
    }
    Ok(flag(is_member))
}

/// Members at random positions: distinct members, or with repetition if `wanted` is negative.
fn random_members(set: &Set, wanted: i64) -> Vec<SharedBytes> {
    let positions = random_indexes(set.len(), wanted);
    positions
        .into_iter()
        .filter_map(|at| set.get_index(at))
        .map(|(member, ())| member.clone())
        .collect()
}

pub fn spop(db: &mut Db, args: Args<'_>) -> CommandResult {
    let wanted = match args.get(2..) {
        Some([]) | None => None,
        Some([wanted]) => Some(parse_count(0, wanted, MUST_BE_POSITIVE)?),
        Some(_) => return Err(SYNTAX_ERROR),
    };
    let popped = db.update_existing::<Set, _>(args[1], |set| {
        let count = i64::try_from(wanted.unwrap_or(1)).unwrap_or(i64::MAX);
        let popped = random_members(set, count);
        for member in &popped {
            set.remove(member);
        }
        Ok(popped)
    })?;
    let popped = popped.unwrap_or_default();
    Ok(match wanted {
        None => bulk_or_nil(popped.first()),
        Some(_) => bulk_array(popped),
    })
}

pub fn srandmember(db: &mut Db, args: Args<'_>) -> CommandResult {
    match args.get(2..) {
        Some([]) | None => {
            let set = db.get_collection::<Set>(args[1])?;
            let picked = set.and_then(|set| set.get_index(random_index(set.len())));
            Ok(picked.map_or(NIL, |(member, ())| bulk(&**member)))
        }
        Some([wanted]) => {
            let wanted = parse_random_count(wanted, false)?;
            let set = db.get_collection::<Set>(args[1])?;
            Ok(set.map_or_else(|| array([]), |set| bulk_array(random_members(set, wanted))))
        }
        Some(_) => Err(SYNTAX_ERROR),
    }
}

/// The sets of several keys. `None` stands for an absent key.
fn sets_of_keys<'a>(db: &'a mut Db, keys: Args<'_>) -> Result<Vec<Option<&'a Set>>, CommandError> {
    for key in keys {
        db.get_collection::<Set>(key)?;
    }
    let dict = db.dict();
    Ok(keys
        .iter()
        .map(|key| {
            dict.get(key)
                .and_then(|entry| Set::from_value(&entry.value))
        })
        .collect())
}

/// Visits at most `limit` members that are in all sets.
fn visit_intersection(sets: &[Option<&Set>], limit: usize, mut visit: impl FnMut(&SharedBytes)) {
    let Some(mut sets) = sets.iter().copied().collect::<Option<Vec<&Set>>>() else {
        return;
    };
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else {
        return;
    };
    let is_in_all = |member: &&SharedBytes| others.iter().all(|set| set.contains(member));
    smallest
        .iter()
        .map(|(member, ())| member)
        .filter(is_in_all)
        .take(limit)
        .for_each(&mut visit);
}

pub fn intersection(sets: &[Option<&Set>]) -> Set {
    let mut result = Set::default();
    visit_intersection(sets, usize::MAX, |member| {
        result.insert(member.clone(), ());
    });
    result
}

pub fn union(sets: &[Option<&Set>]) -> Set {
    let mut result = Set::default();
    for (member, ()) in sets.iter().flatten().flat_map(|set| set.iter()) {
        result.insert(member.clone(), ());
    }
    result
}

pub fn difference(sets: &[Option<&Set>]) -> Set {
    let mut result = Set::default();
    let Some((Some(first), others)) = sets.split_first() else {
        return result;
    };
    for (member, ()) in first.iter() {
        if !others.iter().flatten().any(|set| set.contains(member)) {
            result.insert(member.clone(), ());
        }
    }
    result
}

type SetOperation = fn(&[Option<&Set>]) -> Set;

pub fn reply_combined(db: &mut Db, args: Args<'_>, combine: SetOperation) -> CommandResult {
    Ok(members(&combine(&sets_of_keys(db, &args[1..])?)))
}

pub fn store_combined(db: &mut Db, args: Args<'_>, combine: SetOperation) -> CommandResult {
    let result = combine(&sets_of_keys(db, &args[2..])?);
    let len = result.len();
    db.replace_value(args[1], StoredValue::Set(result), None);
    Ok(integer(len))
}

pub fn sintercard(db: &mut Db, args: Args<'_>) -> CommandResult {
    const TOO_FEW: CommandError =
        CommandError::from_static("ERR Number of keys can't be greater than number of args");
    let keys = parse_count(1, args[1], NO_KEYS)?;
    let (keys, options) = args[2..].split_at_checked(keys).ok_or(TOO_FEW)?;
    let mut limit = usize::MAX;
    let mut options = OptionArgs::starting_at(options, 0);
    while let Some(option) = options.next() {
        if !is_option(option, "LIMIT") {
            return Err(SYNTAX_ERROR);
        }
        limit = parse_limit(options.next_value()?)?;
    }
    let mut found = 0;
    visit_intersection(&sets_of_keys(db, keys)?, limit, |_| found += 1);
    Ok(integer(found))
}

pub fn sscan(db: &mut Db, args: Args<'_>) -> CommandResult {
    scan_collection(db, args, |set: &Set, scan, found| {
        set.scan(scan.cursor, scan.count, |member, ()| {
            if scan.matches_pattern(member) {
                found.push(bulk(&**member));
            }
        })
    })
}
