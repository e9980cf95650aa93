//! Hash commands.

use redis::Value;

use crate::commands::args::{Args, is_option, to_error_text};
use crate::commands::random_pick::{parse_random_count, random_index, random_indexes};
use crate::commands::reply::{NIL, OK, array, bulk, bulk_array, bulk_or_nil, flag, integer};
use crate::commands::scan_args::scan_collection;
use crate::db::Db;
use crate::error::{CommandError, CommandResult, INCREMENT_OVERFLOW, SYNTAX_ERROR};
use crate::numbers::{add_floats, parse_float, parse_float_arg, parse_int, parse_int_arg};
use crate::values::Hash;

/// Sets the field-value pairs after the key. Returns the number of new fields.
fn set_fields(db: &mut Db, args: Args<'_>) -> Result<usize, CommandError> {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::wrong_arity(&to_error_text(args[0])));
    }
    db.update_or_create::<Hash, _>(args[1], |hash| {
        Ok(args[2..]
            .chunks_exact(2)
            .filter(|pair| hash.insert(pair[0], pair[1]))
            .count())
    })
}

pub fn hset(db: &mut Db, args: Args<'_>) -> CommandResult {
    set_fields(db, args).map(integer)
}

pub fn hmset(db: &mut Db, args: Args<'_>) -> CommandResult {
    set_fields(db, args).map(|_| OK)
}

pub fn hsetnx(db: &mut Db, args: Args<'_>) -> CommandResult {
    let set = db.update_or_create::<Hash, _>(args[1], |hash| {
        Ok(!hash.contains(args[2]) && hash.insert(args[2], args[3]))
    })?;
    Ok(flag(set))
}

pub fn hget(db: &mut Db, args: Args<'_>) -> CommandResult {
    let hash = db.get_collection::<Hash>(args[1])?;
    Ok(bulk_or_nil(hash.and_then(|hash| hash.get(args[2]))))
}

pub fn hmget(db: &mut Db, args: Args<'_>) -> CommandResult {
    let hash = db.get_collection::<Hash>(args[1])?;
    let one = |field: &&[u8]| bulk_or_nil(hash.and_then(|hash| hash.get(field)));
    Ok(array(args[2..].iter().map(one)))
}

/// `HGETALL`, `HKEYS` and `HVALS`.
pub fn hgetall(db: &mut Db, args: Args<'_>, fields: bool, values: bool) -> CommandResult {
    let items = db.get_collection::<Hash>(args[1])?.into_iter();
    let items = items
        .flat_map(Hash::iter)
        .flat_map(|(field, value)| [fields.then_some(field), values.then_some(value)]);
    Ok(bulk_array(items.flatten()))
}

pub fn hdel(db: &mut Db, args: Args<'_>) -> CommandResult {
    let removed = db.update_existing::<Hash, _>(args[1], |hash| {
        Ok(args[2..]
            .iter()
            .filter(|field| hash.remove(field).is_some())
            .count())
    })?;
    Ok(integer(removed.unwrap_or(0)))
}

pub fn hexists(db: &mut Db, args: Args<'_>) -> CommandResult {
    Ok(flag(
        db.get_collection::<Hash>(args[1])?
            .is_some_and(|hash| hash.contains(args[2])),
    ))
}

pub fn hstrlen(db: &mut Db, args: Args<'_>) -> CommandResult {
    let value = db
        .get_collection::<Hash>(args[1])?
        .and_then(|hash| hash.get(args[2]));
    Ok(integer(value.map_or(0, |value| value.len())))
}

pub fn hincrby(db: &mut Db, args: Args<'_>) -> CommandResult {
    const NOT_AN_INTEGER: CommandError =
        CommandError::from_static("ERR hash value is not an integer");
    let by = parse_int_arg(args[3])?;
    db.update_or_create::<Hash, _>(args[1], |hash| {
        let old = match hash.get(args[2]) {
            None => 0,
            Some(value) => parse_int(value).ok_or(NOT_AN_INTEGER)?,
        };
        let new = old.checked_add(by).ok_or(INCREMENT_OVERFLOW)?;
        hash.insert(args[2], new.to_string().as_bytes());
        Ok(Value::Int(new))
    })
}

pub fn hincrbyfloat(db: &mut Db, args: Args<'_>) -> CommandResult {
    const NOT_A_FLOAT: CommandError = CommandError::from_static("ERR hash value is not a float");
    const NOT_FINITE: CommandError = CommandError::from_static("ERR value is NaN or Infinity");
    if parse_float_arg(args[3])?.is_infinite() {
        return Err(NOT_FINITE);
    }
    db.update_or_create::<Hash, _>(args[1], |hash| {
        let old = hash.get(args[2]).map_or(&b"0"[..], |value| value);
        parse_float(old).ok_or(NOT_A_FLOAT)?;
        let new = add_floats(old, args[3])?;
        hash.insert(args[2], new.as_bytes());
        Ok(bulk(new))
    })
}

pub fn hrandfield(db: &mut Db, args: Args<'_>) -> CommandResult {
    let with_values = match args.get(3..) {
        Some([]) | None => false,
        Some([option]) if is_option(option, "WITHVALUES") => true,
        Some(_) => return Err(SYNTAX_ERROR),
    };
    let Some(wanted) = args.get(2) else {
        let hash = db.get_collection::<Hash>(args[1])?;
        let picked = hash.and_then(|hash| hash.get_index(random_index(hash.len())));
        return Ok(picked.map_or(NIL, |(field, _)| bulk(&**field)));
    };
    let wanted = parse_random_count(wanted, with_values)?;
    let Some(hash) = db.get_collection::<Hash>(args[1])? else {
        return Ok(array([]));
    };
    let picked = random_indexes(hash.len(), wanted)
        .into_iter()
        .filter_map(|at| hash.get_index(at));
    Ok(match with_values {
        true => bulk_array(picked.flat_map(|(field, value)| [field, value])),
        false => bulk_array(picked.map(|(field, _)| field)),
    })
}

pub fn hscan(db: &mut Db, args: Args<'_>) -> CommandResult {
    scan_collection(db, args, |hash: &Hash, scan, found| {
        hash.scan(scan.cursor, scan.count, |field, value| {
            if scan.matches_pattern(field) {
                found.extend([bulk(&**field), bulk(&**value)]);
            }
        })
    })
}
