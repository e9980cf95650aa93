//! Strings and counters.

use redis::Value;

use crate::args::{Args, Options, is, window};
use crate::db::{Db, Expiry};
use crate::error::{Error, NOT_AN_INTEGER, OVERFLOW, Reply, SYNTAX};
use crate::number::{add_floats, int};
use crate::reply::{NIL, OK, array, bulk, bulk_or_nil, count, yes_no};
use crate::value::Text;

/// A string may be this long, as in Redis.
const MAX_LEN: usize = 512 * 1024 * 1024;
const TOO_LONG: Error =
    Error::fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

pub fn get(db: &mut Db, args: Args<'_>) -> Reply {
    Ok(bulk_or_nil(db.text(args[1])?.map(Text::bytes)))
}

/// What `SET` was asked to do besides setting.
struct SetOptions {
    only_if: Option<bool>,
    expiry: Expiry,
    give_old: bool,
}

fn set_options(db: &Db, args: Args<'_>) -> Result<SetOptions, Error> {
    let (mut only_if, mut expiry, mut give_old) = (None, None, false);
    let mut options = Options::from(args, 3);
    while let Some(option) = options.next() {
        if is(option, "NX") && only_if != Some(true) {
            only_if = Some(false);
        } else if is(option, "XX") && only_if != Some(false) {
            only_if = Some(true);
        } else if is(option, "GET") {
            give_old = true;
        } else if is(option, "KEEPTTL") && expiry.is_none() {
            expiry = Some((option, None));
        } else if ["EX", "PX", "EXAT", "PXAT"]
            .iter()
            .any(|name| is(option, name))
            && expiry.is_none()
        {
            expiry = Some((option, Some(options.value()?)));
        } else {
            return Err(SYNTAX);
        }
    }
    if give_old && only_if == Some(false) {
        db.needs("7.0.0", "SET with NX and GET")?;
    }
    let expiry = match expiry {
        None => Expiry::Clear,
        Some((_, None)) => Expiry::Keep,
        Some((unit, Some(value))) => Expiry::At(deadline(db, "set", unit, value)?),
    };
    Ok(SetOptions {
        only_if,
        expiry,
        give_old,
    })
}

/// The deadline that `EX`, `PX`, `EXAT` or `PXAT` with a value means.
fn deadline(db: &Db, command: &str, unit: &[u8], value: &[u8]) -> Result<u64, Error> {
    let invalid = || Error::invalid_expire(command);
    let mut time = int(value)?;
    if time <= 0 {
        return Err(invalid());
    }
    if is(unit, "EX") || is(unit, "EXAT") {
        time = time.checked_mul(1_000).ok_or_else(invalid)?;
    }
    if is(unit, "EX") || is(unit, "PX") {
        time = time
            .checked_add(db.now().cast_signed())
            .ok_or_else(invalid)?;
    }
    Ok(time.cast_unsigned())
}

/// Sets a string; a deadline that is over already removes the key instead.
fn store(db: &mut Db, key: &[u8], text: Text, expiry: Expiry) {
    match expiry {
        Expiry::At(deadline) if deadline <= db.now() => {
            db.delete(key);
        }
        expiry => db.set_text(key, text, expiry),
    }
}

pub fn set(db: &mut Db, args: Args<'_>) -> Reply {
    let key = args[1];
    let options = set_options(db, args)?;
    let old = match options.give_old {
        true => Some(bulk_or_nil(db.text(key)?.map(Text::bytes))),
        false => None,
    };
    if options
        .only_if
        .is_some_and(|exists| exists != db.contains(key))
    {
        return Ok(old.unwrap_or(NIL));
    }
    store(db, key, Text::from(args[2]), options.expiry);
    Ok(old.unwrap_or(OK))
}

pub fn setnx(db: &mut Db, args: Args<'_>) -> Reply {
    let free = !db.contains(args[1]);
    if free {
        db.set_text(args[1], Text::from(args[2]), Expiry::Clear);
    }
    Ok(yes_no(free))
}

pub fn setex(db: &mut Db, args: Args<'_>) -> Reply {
    let at = deadline(db, "setex", b"EX", args[2])?;
    db.set_text(args[1], Text::from(args[3]), Expiry::At(at));
    Ok(OK)
}

pub fn psetex(db: &mut Db, args: Args<'_>) -> Reply {
    let at = deadline(db, "psetex", b"PX", args[2])?;
    db.set_text(args[1], Text::from(args[3]), Expiry::At(at));
    Ok(OK)
}

pub fn getset(db: &mut Db, args: Args<'_>) -> Reply {
    let old = get(db, &args[..2])?;
    db.set_text(args[1], Text::from(args[2]), Expiry::Clear);
    Ok(old)
}

pub fn getdel(db: &mut Db, args: Args<'_>) -> Reply {
    let old = get(db, args)?;
    db.delete(args[1]);
    Ok(old)
}

pub fn getex(db: &mut Db, args: Args<'_>) -> Reply {
    let units = ["EX", "PX", "EXAT", "PXAT"];
    let change = match args.get(2..) {
        Some([]) | None => None,
        Some([option]) if is(option, "PERSIST") => Some(None),
        Some([unit, value]) if units.iter().any(|name| is(unit, name)) => Some(Some((unit, value))),
        Some(_) => return Err(SYNTAX),
    };
    let value = get(db, &args[..2])?;
    // The time is looked at only where there is a value, as in Redis.
    if let (Some(change), Value::BulkString(_)) = (change, &value) {
        let deadline = change
            .map(|(unit, value)| deadline(db, "getex", unit, value))
            .transpose()?;
        db.set_deadline(args[1], deadline);
    }
    Ok(value)
}

pub fn mget(db: &mut Db, args: Args<'_>) -> Reply {
    // A key of another type reads as absent here, not as an error.
    let one = |key: &&[u8]| bulk_or_nil(db.text(key).ok().flatten().map(Text::bytes));
    Ok(array(args[1..].iter().map(one)))
}

fn pairs<'a>(args: Args<'a>) -> Result<impl Iterator<Item = (&'a [u8], &'a [u8])>, Error> {
    if args.len().is_multiple_of(2) {
        return Err(Error::wrong_arity(&String::from_utf8_lossy(args[0])));
    }
    Ok(args[1..].chunks_exact(2).map(|pair| (pair[0], pair[1])))
}

pub fn mset(db: &mut Db, args: Args<'_>) -> Reply {
    for (key, value) in pairs(args)? {
        db.set_text(key, Text::from(value), Expiry::Clear);
    }
    Ok(OK)
}

pub fn msetnx(db: &mut Db, args: Args<'_>) -> Reply {
    if pairs(args)?.any(|(key, _)| db.contains(key)) {
        return Ok(yes_no(false));
    }
    mset(db, args)?;
    Ok(yes_no(true))
}

fn add(db: &mut Db, key: &[u8], by: i64) -> Reply {
    let old = match db.text(key)? {
        None => 0,
        Some(text) => text.int().ok_or(NOT_AN_INTEGER)?,
    };
    let new = old.checked_add(by).ok_or(OVERFLOW)?;
    db.set_text(key, Text::Int(new), Expiry::Keep);
    Ok(Value::Int(new))
}

pub fn incr(db: &mut Db, args: Args<'_>) -> Reply {
    add(db, args[1], 1)
}

pub fn decr(db: &mut Db, args: Args<'_>) -> Reply {
    add(db, args[1], -1)
}

pub fn incrby(db: &mut Db, args: Args<'_>) -> Reply {
    add(db, args[1], int(args[2])?)
}

pub fn decrby(db: &mut Db, args: Args<'_>) -> Reply {
    let by = int(args[2])?
        .checked_neg()
        .ok_or(Error::fixed("ERR decrement would overflow"))?;
    add(db, args[1], by)
}

pub fn incrbyfloat(db: &mut Db, args: Args<'_>) -> Reply {
    let old = db
        .text(args[1])?
        .map_or_else(|| b"0".to_vec(), |text| text.bytes().to_vec());
    let new = add_floats(&old, args[2])?;
    db.set_text(args[1], Text::from(new.as_bytes()), Expiry::Keep);
    Ok(bulk(new))
}

pub fn append(db: &mut Db, args: Args<'_>) -> Reply {
    let mut bytes = db
        .text(args[1])?
        .map_or_else(Vec::new, |text| text.bytes().to_vec());
    if bytes.len() + args[2].len() > MAX_LEN {
        return Err(TOO_LONG);
    }
    bytes.extend_from_slice(args[2]);
    let len = bytes.len();
    db.set_text(args[1], Text::from(bytes), Expiry::Keep);
    Ok(count(len))
}

pub fn strlen(db: &mut Db, args: Args<'_>) -> Reply {
    Ok(count(db.text(args[1])?.map_or(0, Text::len)))
}

pub fn getrange(db: &mut Db, args: Args<'_>) -> Reply {
    let (start, end) = (int(args[2])?, int(args[3])?);
    let Some(text) = db.text(args[1])? else {
        return Ok(bulk(""));
    };
    let bytes = text.bytes();
    if start < 0 && end < 0 && start > end {
        return Ok(bulk(""));
    }
    // Unlike for lists, an end before the start of the string stands for its first byte.
    let end = if end < 0 {
        end.saturating_add(bytes.len() as i64).max(0)
    } else {
        end
    };
    Ok(bulk(&bytes[window(start, end, bytes.len())]))
}

pub fn setrange(db: &mut Db, args: Args<'_>) -> Reply {
    let offset = int(args[2])?;
    let Ok(offset) = usize::try_from(offset) else {
        return Err(Error::fixed("ERR offset is out of range"));
    };
    let part = args[3];
    let mut bytes = db
        .text(args[1])?
        .map_or_else(Vec::new, |text| text.bytes().to_vec());
    if part.is_empty() {
        return Ok(count(bytes.len()));
    }
    let end = offset
        .checked_add(part.len())
        .filter(|end| *end <= MAX_LEN)
        .ok_or(TOO_LONG)?;
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(part);
    let len = bytes.len();
    db.set_text(args[1], Text::from(bytes), Expiry::Keep);
    Ok(count(len))
}
