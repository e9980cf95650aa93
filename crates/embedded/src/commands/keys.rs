//! Commands for keys of any type.

use redis::Value;

use crate::commands::args::{Args, OptionArgs, is_option, to_error_text};
use crate::commands::reply::{NIL, OK, bulk, bulk_array, flag, integer, scan_page};
use crate::commands::scan_args::ScanArgs;
use crate::db::Db;
use crate::db::sharded_dict::KeyEntry;
use crate::error::{CommandError, CommandResult, NO_SUCH_KEY, SYNTAX_ERROR};
use crate::glob;
use crate::numbers::parse_int_arg;
use crate::values::Collection;

pub fn del(db: &mut Db, args: Args<'_>) -> CommandResult {
    Ok(integer(
        args[1..].iter().filter(|key| db.delete_key(key)).count(),
    ))
}

pub fn exists(db: &mut Db, args: Args<'_>) -> CommandResult {
    Ok(integer(
        args[1..].iter().filter(|key| db.contains(key)).count(),
    ))
}

/// `HLEN`, `LLEN`, `SCARD` and `ZCARD`.
pub fn collection_len<C: Collection>(db: &mut Db, args: Args<'_>) -> CommandResult {
    Ok(integer(db.get_collection::<C>(args[1])?.map_or(0, C::len)))
}

pub fn type_of_key(db: &mut Db, args: Args<'_>) -> CommandResult {
    let name = db
        .entry(args[1])
        .map_or("none", |entry| entry.value.value_type().name());
    Ok(Value::SimpleString(name.to_owned()))
}

/// Conditions of the `EXPIRE` commands: `NX`, `XX`, `GT`, `LT`.
#[derive(Default)]
struct ExpireCondition {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl ExpireCondition {
    fn parse(db: &Db, args: Args<'_>) -> Result<Self, CommandError> {
        let mut condition = Self::default();
        for option in OptionArgs::starting_at(args, 3) {
            match () {
                () if is_option(option, "NX") => condition.nx = true,
                () if is_option(option, "XX") => condition.xx = true,
                () if is_option(option, "GT") => condition.gt = true,
                () if is_option(option, "LT") => condition.lt = true,
                () => {
                    return Err(CommandError::new(format!(
                        "ERR Unsupported option {}",
                        to_error_text(option)
                    )));
                }
            }
            db.require_redis_version("7.0.0", "EXPIRE with NX, XX, GT or LT")?;
        }
        if condition.nx && (condition.xx || condition.gt || condition.lt) {
            return Err(CommandError::from_static(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if condition.gt && condition.lt {
            return Err(CommandError::from_static(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(condition)
    }

    /// Whether the deadline of a key may change from `current` to `new`. No deadline counts as infinitely late.
    fn allows(&self, current: Option<u64>, new: i64) -> bool {
        let later = |current: u64| new > current.cast_signed();
        let earlier = |current: u64| new < current.cast_signed();
        !(self.nx && current.is_some()
            || self.xx && current.is_none()
            || self.gt && !current.is_some_and(later)
            || self.lt && !current.is_none_or(earlier))
    }
}

/// Origin of a time in an argument or reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TimeOrigin {
    FromNow,
    FromEpoch,
}

/// The `EXPIRE` commands, with times of `unit` ms.
pub fn expire(db: &mut Db, args: Args<'_>, unit: i64, origin: TimeOrigin) -> CommandResult {
    let condition = ExpireCondition::parse(db, args)?;
    let base = match origin {
        TimeOrigin::FromNow => db.now().cast_signed(),
        TimeOrigin::FromEpoch => 0,
    };
    let deadline = parse_int_arg(args[2])?
        .checked_mul(unit)
        .and_then(|deadline| deadline.checked_add(base))
        .ok_or_else(|| CommandError::invalid_expire(args[0]))?;
    // Without options, the usual case, the key is looked up once.
    if args.len() > 3 {
        let current = db.entry(args[1]).map(KeyEntry::deadline);
        if !current.is_some_and(|current| condition.allows(current, deadline)) {
            return Ok(flag(false));
        }
    }
    let deadline = u64::try_from(deadline).unwrap_or(0);
    Ok(flag(db.set_deadline(args[1], Some(deadline))))
}

/// The `TTL` commands, with times of `unit` ms: -2 if the key does not exist, -1 if it has no deadline.
pub fn ttl(db: &mut Db, args: Args<'_>, unit: u64, origin: TimeOrigin) -> CommandResult {
    let base = match origin {
        TimeOrigin::FromNow => db.now(),
        TimeOrigin::FromEpoch => 0,
    };
    let rounded = |deadline: u64| (deadline.saturating_sub(base) + unit / 2) / unit;
    Ok(Value::Int(
        match db.entry(args[1]).map(KeyEntry::deadline) {
            None => -2,
            Some(None) => -1,
            Some(Some(deadline)) => rounded(deadline).cast_signed(),
        },
    ))
}

pub fn persist(db: &mut Db, args: Args<'_>) -> CommandResult {
    let had = db
        .entry(args[1])
        .is_some_and(|entry| entry.deadline().is_some());
    if had {
        db.set_deadline(args[1], None);
    }
    Ok(flag(had))
}

pub fn keys(db: &mut Db, args: Args<'_>) -> CommandResult {
    let now = db.now();
    let visible = db
        .dict()
        .iter()
        .filter(|(_, entry)| !entry.is_expired(now))
        .map(|(key, _)| key);
    Ok(bulk_array(
        visible.filter(|key| glob::matches(args[1], key)),
    ))
}

pub fn scan(db: &mut Db, args: Args<'_>) -> CommandResult {
    let scan = ScanArgs::parse(db, args, 1)?;
    let now = db.now();
    let mut found = Vec::new();
    let next = db.dict().scan(scan.cursor, scan.count, |key, entry| {
        let has_type = scan
            .value_type
            .is_none_or(|name| is_option(name, entry.value.value_type().name()));
        if has_type && !entry.is_expired(now) && scan.matches_pattern(key) {
            found.push(bulk(&**key));
        }
    });
    Ok(scan_page(next, found))
}

pub fn randomkey(db: &mut Db, _: Args<'_>) -> CommandResult {
    // `contains` deletes an expired key, so the loop ends.
    loop {
        let Some(key) = db.dict().random_key().cloned() else {
            return Ok(NIL);
        };
        if db.contains(&key) {
            return Ok(bulk(&*key));
        }
    }
}

pub fn dbsize(db: &mut Db, _: Args<'_>) -> CommandResult {
    // Deletes expired keys first, so that the count is exact unless very many keys have just expired.
    db.delete_expired(1_000);
    Ok(integer(db.dict().len()))
}

pub fn flushall(db: &mut Db, args: Args<'_>) -> CommandResult {
    match args.get(1..) {
        Some([]) | None => {}
        Some([how]) if is_option(how, "SYNC") || is_option(how, "ASYNC") => {}
        Some(_) => return Err(SYNTAX_ERROR),
    }
    db.clear();
    Ok(OK)
}

pub fn rename(db: &mut Db, args: Args<'_>) -> CommandResult {
    let (value, deadline) = db.take_key(args[1]).ok_or(NO_SUCH_KEY)?;
    db.replace_value(args[2], value, deadline);
    Ok(OK)
}

pub fn renamenx(db: &mut Db, args: Args<'_>) -> CommandResult {
    if !db.contains(args[1]) {
        return Err(NO_SUCH_KEY);
    }
    if db.contains(args[2]) {
        return Ok(flag(false));
    }
    rename(db, args)?;
    Ok(flag(true))
}

pub fn copy(db: &mut Db, args: Args<'_>) -> CommandResult {
    let mut replace = false;
    let mut options = OptionArgs::starting_at(args, 3);
    while let Some(option) = options.next() {
        if is_option(option, "REPLACE") {
            replace = true;
        } else if is_option(option, "DB") && options.remaining() > 0 {
            if options.next_int()? != 0 {
                return Err(CommandError::from_static("ERR DB index is out of range"));
            }
        } else {
            return Err(SYNTAX_ERROR);
        }
    }
    if args[1] == args[2] {
        return Err(CommandError::from_static(
            "ERR source and destination objects are the same",
        ));
    }
    let Some(entry) = db.entry(args[1]) else {
        return Ok(flag(false));
    };
    let (value, deadline) = (entry.value.clone(), entry.deadline());
    if !replace && db.contains(args[2]) {
        return Ok(flag(false));
    }
    db.replace_value(args[2], value, deadline);
    Ok(flag(true))
}
