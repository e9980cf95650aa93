//! String and counter commands.

use redis::Value;

use crate::commands::args::{Args, OptionArgs, is_option, resolve_range};
use crate::commands::reply::{NIL, OK, array, bulk, bulk_or_nil, flag, integer};
use crate::db::{Db, ExpireUpdate};
use crate::error::{CommandError, CommandResult, INCREMENT_OVERFLOW, NOT_AN_INTEGER, SYNTAX_ERROR};
use crate::numbers::{add_floats, parse_int_arg};
use crate::values::StringValue;

/// Maximum length of a string, as in Redis.
const MAX_STRING_BYTES: usize = 512 * 1024 * 1024;
const STRING_TOO_LONG: CommandError =
    CommandError::from_static("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

pub fn get(db: &mut Db, args: Args<'_>) -> CommandResult {
    Ok(bulk_or_nil(
        db.get_string(args[1])?.map(StringValue::to_bytes),
    ))
}

/// Options of `SET`.
struct SetOptions {
    must_exist: Option<bool>,
    expiry: ExpireUpdate,
    return_old: bool,
}

fn parse_set_options(db: &Db, args: Args<'_>) -> Result<SetOptions, CommandError> {
    let (mut must_exist, mut expiry, mut return_old) = (None, None, false);
    let mut options = OptionArgs::starting_at(args, 3);
    while let Some(option) = options.next() {
        if is_option(option, "NX") && must_exist != Some(true) {
            must_exist = Some(false);
        } else if is_option(option, "XX") && must_exist != Some(false) {
            must_exist = Some(true);
        } else if is_option(option, "GET") {
            return_old = true;
        } else if is_option(option, "KEEPTTL") && expiry.is_none() {
            expiry = Some((option, None));
        } else if is_expire_unit(option) && expiry.is_none() {
            expiry = Some((option, Some(options.next_value()?)));
        } else {
            return Err(SYNTAX_ERROR);
        }
    }
    if return_old && must_exist == Some(false) {
        db.require_redis_version("7.0.0", "SET with NX and GET")?;
    }
    let expiry = match expiry {
        None => ExpireUpdate::Clear,
        Some((_, None)) => ExpireUpdate::Keep,
        Some((unit, Some(value))) => ExpireUpdate::At(parse_deadline(db, args[0], unit, value)?),
    };
    Ok(SetOptions {
        must_exist,
        expiry,
        return_old,
    })
}

fn is_expire_unit(option: &[u8]) -> bool {
    ["EX", "PX", "EXAT", "PXAT"]
        .iter()
        .any(|unit| is_option(option, unit))
}

/// Deadline for the value of `EX`, `PX`, `EXAT` or `PXAT`.
fn parse_deadline(db: &Db, command: &[u8], unit: &[u8], value: &[u8]) -> Result<u64, CommandError> {
    let invalid = || CommandError::invalid_expire(command);
    let mut time = parse_int_arg(value)?;
    if time <= 0 {
        return Err(invalid());
    }
    if is_option(unit, "EX") || is_option(unit, "EXAT") {
        time = time.checked_mul(1_000).ok_or_else(invalid)?;
    }
    if is_option(unit, "EX") || is_option(unit, "PX") {
        time = time
            .checked_add(db.now().cast_signed())
            .ok_or_else(invalid)?;
    }
    Ok(time.cast_unsigned())
}

/// Sets a string, or deletes the key if the deadline has already passed.
fn set_or_delete(db: &mut Db, key: &[u8], text: StringValue, expiry: ExpireUpdate) {
    match expiry {
        ExpireUpdate::At(deadline) if deadline <= db.now() => {
            db.delete_key(key);
        }
        expiry => db.set_string(key, text, expiry),
    }
}

pub fn set(db: &mut Db, args: Args<'_>) -> CommandResult {
    let key = args[1];
    let options = parse_set_options(db, args)?;
    let old = match options.return_old {
        true => Some(bulk_or_nil(db.get_string(key)?.map(StringValue::to_bytes))),
        false => None,
    };
    if options
        .must_exist
        .is_some_and(|exists| exists != db.contains(key))
    {
        return Ok(old.unwrap_or(NIL));
    }
    set_or_delete(db, key, StringValue::from(args[2]), options.expiry);
    Ok(old.unwrap_or(OK))
}

pub fn setnx(db: &mut Db, args: Args<'_>) -> CommandResult {
    let free = !db.contains(args[1]);
    if free {
        db.set_string(args[1], StringValue::from(args[2]), ExpireUpdate::Clear);
    }
    Ok(flag(free))
}

/// `SETEX` and `PSETEX`, with a TTL in this unit.
pub fn setex(db: &mut Db, args: Args<'_>, unit: &[u8]) -> CommandResult {
    let deadline = parse_deadline(db, args[0], unit, args[2])?;
    let expiry = ExpireUpdate::At(deadline);
    db.set_string(args[1], StringValue::from(args[3]), expiry);
    Ok(OK)
}

pub fn getset(db: &mut Db, args: Args<'_>) -> CommandResult {
    let old = get(db, &args[..2])?;
    db.set_string(args[1], StringValue::from(args[2]), ExpireUpdate::Clear);
    Ok(old)
}

pub fn getdel(db: &mut Db, args: Args<'_>) -> CommandResult {
    let old = get(db, args)?;
    db.delete_key(args[1]);
    Ok(old)
}

pub fn getex(db: &mut Db, args: Args<'_>) -> CommandResult {
    let change = match args.get(2..) {
        Some([]) | None => None,
        Some([option]) if is_option(option, "PERSIST") => Some(None),
        Some([unit, value]) if is_expire_unit(unit) => Some(Some((unit, value))),
        Some(_) => return Err(SYNTAX_ERROR),
    };
    let value = get(db, &args[..2])?;
    // As in Redis, the time is validated only if the key has a value.
    if let (Some(change), Value::BulkString(_)) = (change, &value) {
        let deadline = change
            .map(|(unit, value)| parse_deadline(db, args[0], unit, value))
            .transpose()?;
        db.set_deadline(args[1], deadline);
    }
    Ok(value)
}

pub fn mget(db: &mut Db, args: Args<'_>) -> CommandResult {
    // A key of another type gives nil here, not an error.
    let one =
        |key: &&[u8]| bulk_or_nil(db.get_string(key).ok().flatten().map(StringValue::to_bytes));
    Ok(array(args[1..].iter().map(one)))
}

fn pairs<'a>(args: Args<'a>) -> Result<impl Iterator<Item = (&'a [u8], &'a [u8])>, CommandError> {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::wrong_arity(&String::from_utf8_lossy(args[0])));
    }
    Ok(args[1..].chunks_exact(2).map(|pair| (pair[0], pair[1])))
}

pub fn mset(db: &mut Db, args: Args<'_>) -> CommandResult {
    for (key, value) in pairs(args)? {
        db.set_string(key, StringValue::from(value), ExpireUpdate::Clear);
    }
    Ok(OK)
}

pub fn msetnx(db: &mut Db, args: Args<'_>) -> CommandResult {
    if pairs(args)?.any(|(key, _)| db.contains(key)) {
        return Ok(flag(false));
    }
    mset(db, args)?;
    Ok(flag(true))
}

pub fn incr_decr(db: &mut Db, args: Args<'_>, by: i64) -> CommandResult {
    let old = match db.get_string(args[1])? {
        None => 0,
        Some(text) => text.as_int().ok_or(NOT_AN_INTEGER)?,
    };
    let new = old.checked_add(by).ok_or(INCREMENT_OVERFLOW)?;
    db.set_string(args[1], StringValue::Int(new), ExpireUpdate::Keep);
    Ok(Value::Int(new))
}

pub fn incrby(db: &mut Db, args: Args<'_>) -> CommandResult {
    incr_decr(db, args, parse_int_arg(args[2])?)
}

pub fn decrby(db: &mut Db, args: Args<'_>) -> CommandResult {
    let by = parse_int_arg(args[2])?
        .checked_neg()
        .ok_or(CommandError::from_static("ERR decrement would overflow"))?;
    incr_decr(db, args, by)
}

/// A copy of the string at a key, or of `default` if the key does not exist.
fn string_bytes(db: &mut Db, key: &[u8], default: &[u8]) -> Result<Vec<u8>, CommandError> {
    let text = db.get_string(key)?;
    Ok(text.map_or(default.to_vec(), |text| text.to_bytes().to_vec()))
}

pub fn incrbyfloat(db: &mut Db, args: Args<'_>) -> CommandResult {
    let old = string_bytes(db, args[1], b"0")?;
    let new = add_floats(&old, args[2])?;
    db.set_string(
        args[1],
        StringValue::from(new.as_bytes()),
        ExpireUpdate::Keep,
    );
    Ok(bulk(new))
}

pub fn append(db: &mut Db, args: Args<'_>) -> CommandResult {
    let mut bytes = string_bytes(db, args[1], b"")?;
    if bytes.len() + args[2].len() > MAX_STRING_BYTES {
        return Err(STRING_TOO_LONG);
    }
    bytes.extend_from_slice(args[2]);
    let len = bytes.len();
    db.set_string(args[1], StringValue::from(bytes), ExpireUpdate::Keep);
    Ok(integer(len))
}

pub fn strlen(db: &mut Db, args: Args<'_>) -> CommandResult {
    Ok(integer(db.get_string(args[1])?.map_or(0, StringValue::len)))
}

pub fn getrange(db: &mut Db, args: Args<'_>) -> CommandResult {
    let (start, end) = (parse_int_arg(args[2])?, parse_int_arg(args[3])?);
    let Some(text) = db.get_string(args[1])? else {
        return Ok(bulk(""));
    };
    let bytes = text.to_bytes();
    if start < 0 && end < 0 && start > end {
        return Ok(bulk(""));
    }
    // Unlike for lists, an end before the start of the string selects its first byte.
    let end = if end < 0 {
        end.saturating_add(bytes.len() as i64).max(0)
    } else {
        end
    };
    Ok(bulk(&bytes[resolve_range(start, end, bytes.len())]))
}

pub fn setrange(db: &mut Db, args: Args<'_>) -> CommandResult {
    let offset = parse_int_arg(args[2])?;
    let Ok(offset) = usize::try_from(offset) else {
        return Err(CommandError::from_static("ERR offset is out of range"));
    };
    let part = args[3];
    let mut bytes = string_bytes(db, args[1], b"")?;
    if part.is_empty() {
        return Ok(integer(bytes.len()));
    }
    let end = offset
        .checked_add(part.len())
        .filter(|end| *end <= MAX_STRING_BYTES)
        .ok_or(STRING_TOO_LONG)?;
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(part);
    let len = bytes.len();
    db.set_string(args[1], StringValue::from(bytes), ExpireUpdate::Keep);
    Ok(integer(len))
}
