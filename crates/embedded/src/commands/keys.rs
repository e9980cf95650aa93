//! Commands for keys of any type.

use redis::Value;

use crate::args::{Args, OptionArgs, is_option, to_error_text};
use crate::commands::scan::ScanArgs;
use crate::db::Db;
use crate::error::{CommandError, CommandResult, NO_SUCH_KEY, SYNTAX_ERROR};
use crate::glob;
use crate::keyspace::KeyEntry;
use crate::number::parse_int_arg;
use crate::reply::{NIL, OK, bulk, bulk_array, count, flag, scan_page};

pub fn del(db: &mut Db, args: Args<'_>) -> CommandResult {
    Ok(count(args[1..].iter().filter(|key| db.delete(key)).count()))
}

pub fn exists(db: &mut Db, args: Args<'_>) -> CommandResult {
    Ok(count(
        args[1..].iter().filter(|key| db.contains(key)).count(),
    ))
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
    none: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl ExpireCondition {
    fn parse(db: &Db, args: Args<'_>) -> Result<Self, CommandError> {
        let mut condition = Self::default();
        for option in OptionArgs::starting_at(args, 3) {
            match () {
                () if is_option(option, "NX") => condition.none = true,
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
        if condition.none && (condition.xx || condition.gt || condition.lt) {
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
        !(self.none && current.is_some()
            || self.xx && current.is_none()
            || self.gt && !current.is_some_and(later)
            || self.lt && !current.is_none_or(earlier))
    }
}

fn expire_generic(
    db: &mut Db,
    args: Args<'_>,
    command: &str,
    unit: i64,
    from_now: bool,
) -> CommandResult {
    let condition = ExpireCondition::parse(db, args)?;
    let invalid = || CommandError::invalid_expire(command);
    let base = if from_now { db.now().cast_signed() } else { 0 };
    let deadline = parse_int_arg(args[2])?
        .checked_mul(unit)
        .ok_or_else(invalid)?;
    if deadline > i64::MAX - base {
        return Err(invalid());
    }
    let deadline = deadline + base;
    // Without options, the usual case, the key is looked up once.
    if args.len() > 3 {
        let current = db.entry(args[1]).map(KeyEntry::deadline);
        if !current.is_some_and(|current| condition.allows(current, deadline)) {
            return Ok(flag(false));
        }
    }
    Ok(flag(db.set_deadline(
        args[1],
        Some(u64::try_from(deadline).unwrap_or(0)),
    )))
}

pub fn expire(db: &mut Db, args: Args<'_>) -> CommandResult {
    expire_generic(db, args, "expire", 1_000, true)
}

pub fn pexpire(db: &mut Db, args: Args<'_>) -> CommandResult {
    expire_generic(db, args, "pexpire", 1, true)
}

pub fn expireat(db: &mut Db, args: Args<'_>) -> CommandResult {
    expire_generic(db, args, "expireat", 1_000, false)
}

pub fn pexpireat(db: &mut Db, args: Args<'_>) -> CommandResult {
    expire_generic(db, args, "pexpireat", 1, false)
}

/// Shared by the `TTL` commands: -2 if the key does not exist, -1 if it has no deadline, otherwise the result of `time`
/// for the deadline and the current time.
fn ttl_generic(db: &mut Db, key: &[u8], time: impl FnOnce(u64, u64) -> u64) -> CommandResult {
    let now = db.now();
    Ok(Value::Int(match db.entry(key).map(KeyEntry::deadline) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline)) => time(deadline, now).cast_signed(),
    }))
}

pub fn ttl(db: &mut Db, args: Args<'_>) -> CommandResult {
    ttl_generic(db, args[1], |deadline, now| {
        (deadline.saturating_sub(now) + 500) / 1_000
    })
}

pub fn pttl(db: &mut Db, args: Args<'_>) -> CommandResult {
    ttl_generic(db, args[1], u64::saturating_sub)
}

pub fn expiretime(db: &mut Db, args: Args<'_>) -> CommandResult {
    ttl_generic(db, args[1], |deadline, _| (deadline + 500) / 1_000)
}

pub fn pexpiretime(db: &mut Db, args: Args<'_>) -> CommandResult {
    ttl_generic(db, args[1], |deadline, _| deadline)
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
        .keys()
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
    let next = db.keys().scan(scan.cursor, scan.count, |key, entry| {
        let of_kind = scan
            .kind
            .is_none_or(|kind| is_option(kind, entry.value.value_type().name()));
        if of_kind && !entry.is_expired(now) && scan.matches_pattern(key) {
            found.push(bulk(&**key));
        }
    });
    Ok(scan_page(next, found))
}

pub fn randomkey(db: &mut Db, _: Args<'_>) -> CommandResult {
    // `contains` deletes an expired key, so the loop ends.
    loop {
        let random = db.rng_state();
        let Some((key, _)) = db.keys().random_entry(random) else {
            return Ok(NIL);
        };
        let key = key.clone();
        if db.contains(&key) {
            return Ok(bulk(&*key));
        }
    }
}

pub fn dbsize(db: &mut Db, _: Args<'_>) -> CommandResult {
    // Deletes expired keys first, so that the count is exact unless very many keys have just expired.
    db.sweep(1_000);
    Ok(count(db.keys().len()))
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
    let (value, deadline) = db.take(args[1]).ok_or(NO_SUCH_KEY)?;
    db.put(args[2], value, deadline);
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
        } else if is_option(option, "DB") && options.left() > 0 {
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
    db.put(args[2], value, deadline);
    Ok(flag(true))
}
