//! Commands that work on keys of any type.

use redis::Value;

use crate::args::{Args, Options, is, lossy};
use crate::commands::scan::Scan;
use crate::db::Db;
use crate::error::{Error, NO_SUCH_KEY, Reply, SYNTAX};
use crate::glob;
use crate::keyspace::Entry;
use crate::number::int;
use crate::reply::{NIL, OK, bulk, bulks, count, scanned, yes_no};

pub fn del(db: &mut Db, args: Args<'_>) -> Reply {
    Ok(count(args[1..].iter().filter(|key| db.delete(key)).count()))
}

pub fn exists(db: &mut Db, args: Args<'_>) -> Reply {
    Ok(count(
        args[1..].iter().filter(|key| db.contains(key)).count(),
    ))
}

pub fn kind(db: &mut Db, args: Args<'_>) -> Reply {
    let name = db
        .entry(args[1])
        .map_or("none", |entry| entry.value.kind().name());
    Ok(Value::SimpleString(name.to_owned()))
}

/// When a new deadline is taken.
#[derive(Default)]
struct Condition {
    none: bool,
    some: bool,
    greater: bool,
    less: bool,
}

impl Condition {
    fn parse(db: &Db, args: Args<'_>) -> Result<Self, Error> {
        let mut condition = Self::default();
        for option in Options::from(args, 3) {
            match () {
                () if is(option, "NX") => condition.none = true,
                () if is(option, "XX") => condition.some = true,
                () if is(option, "GT") => condition.greater = true,
                () if is(option, "LT") => condition.less = true,
                () => {
                    return Err(Error::new(format!(
                        "ERR Unsupported option {}",
                        lossy(option)
                    )));
                }
            }
            db.needs("7.0.0", "EXPIRE with NX, XX, GT or LT")?;
        }
        if condition.none && (condition.some || condition.greater || condition.less) {
            return Err(Error::fixed(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if condition.greater && condition.less {
            return Err(Error::fixed(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(condition)
    }

    /// Whether a key with the deadline `current` may get `new`. No deadline counts as infinitely late.
    fn allows(&self, current: Option<u64>, new: i64) -> bool {
        let later = |current: u64| new > current.cast_signed();
        let earlier = |current: u64| new < current.cast_signed();
        !(self.none && current.is_some()
            || self.some && current.is_none()
            || self.greater && !current.is_some_and(later)
            || self.less && !current.is_none_or(earlier))
    }
}

fn expire_with(db: &mut Db, args: Args<'_>, command: &str, unit: i64, from_now: bool) -> Reply {
    let condition = Condition::parse(db, args)?;
    let invalid = || Error::invalid_expire(command);
    let base = if from_now { db.now().cast_signed() } else { 0 };
    let deadline = int(args[2])?.checked_mul(unit).ok_or_else(invalid)?;
    if deadline > i64::MAX - base {
        return Err(invalid());
    }
    let deadline = deadline + base;
    // The everyday form without options finds its key once.
    if args.len() > 3 {
        let current = db.entry(args[1]).map(Entry::deadline);
        if !current.is_some_and(|current| condition.allows(current, deadline)) {
            return Ok(yes_no(false));
        }
    }
    Ok(yes_no(db.set_deadline(
        args[1],
        Some(u64::try_from(deadline).unwrap_or(0)),
    )))
}

pub fn expire(db: &mut Db, args: Args<'_>) -> Reply {
    expire_with(db, args, "expire", 1_000, true)
}

pub fn pexpire(db: &mut Db, args: Args<'_>) -> Reply {
    expire_with(db, args, "pexpire", 1, true)
}

pub fn expireat(db: &mut Db, args: Args<'_>) -> Reply {
    expire_with(db, args, "expireat", 1_000, false)
}

pub fn pexpireat(db: &mut Db, args: Args<'_>) -> Reply {
    expire_with(db, args, "pexpireat", 1, false)
}

/// Answers with what `time` makes of a key's deadline: -2 without key, -1 without deadline.
fn deadline_as(db: &mut Db, key: &[u8], time: impl FnOnce(u64, u64) -> u64) -> Reply {
    let now = db.now();
    Ok(Value::Int(match db.entry(key).map(Entry::deadline) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline)) => time(deadline, now).cast_signed(),
    }))
}

pub fn ttl(db: &mut Db, args: Args<'_>) -> Reply {
    deadline_as(db, args[1], |deadline, now| {
        (deadline.saturating_sub(now) + 500) / 1_000
    })
}

pub fn pttl(db: &mut Db, args: Args<'_>) -> Reply {
    deadline_as(db, args[1], u64::saturating_sub)
}

pub fn expiretime(db: &mut Db, args: Args<'_>) -> Reply {
    deadline_as(db, args[1], |deadline, _| (deadline + 500) / 1_000)
}

pub fn pexpiretime(db: &mut Db, args: Args<'_>) -> Reply {
    deadline_as(db, args[1], |deadline, _| deadline)
}

pub fn persist(db: &mut Db, args: Args<'_>) -> Reply {
    let had = db
        .entry(args[1])
        .is_some_and(|entry| entry.deadline().is_some());
    if had {
        db.set_deadline(args[1], None);
    }
    Ok(yes_no(had))
}

pub fn keys(db: &mut Db, args: Args<'_>) -> Reply {
    let now = db.now();
    let visible = db
        .keys()
        .iter()
        .filter(|(_, entry)| !entry.is_expired(now))
        .map(|(key, _)| key);
    Ok(bulks(visible.filter(|key| glob::matches(args[1], key))))
}

pub fn scan(db: &mut Db, args: Args<'_>) -> Reply {
    let scan = Scan::parse(db, args, 1)?;
    let now = db.now();
    let mut found = Vec::new();
    let next = db.keys().scan(scan.cursor, scan.count, |key, entry| {
        let of_kind = scan
            .kind
            .is_none_or(|kind| is(kind, entry.value.kind().name()));
        if of_kind && !entry.is_expired(now) && scan.wants(key) {
            found.push(bulk(&**key));
        }
    });
    Ok(scanned(next, found))
}

pub fn randomkey(db: &mut Db, _: Args<'_>) -> Reply {
    // An expired key is dropped when met, so this ends.
    loop {
        let random = db.random();
        let Some((key, _)) = db.keys().pick(random) else {
            return Ok(NIL);
        };
        let key = key.clone();
        if db.contains(&key) {
            return Ok(bulk(&*key));
        }
    }
}

pub fn dbsize(db: &mut Db, _: Args<'_>) -> Reply {
    // So that the count is exact unless very many keys have just expired.
    db.sweep(1_000);
    Ok(count(db.keys().len()))
}

pub fn flush(db: &mut Db, args: Args<'_>) -> Reply {
    match args.get(1..) {
        Some([]) | None => {}
        Some([how]) if is(how, "SYNC") || is(how, "ASYNC") => {}
        Some(_) => return Err(SYNTAX),
    }
    db.clear();
    Ok(OK)
}

pub fn rename(db: &mut Db, args: Args<'_>) -> Reply {
    let (value, deadline) = db.take(args[1]).ok_or(NO_SUCH_KEY)?;
    db.put(args[2], value, deadline);
    Ok(OK)
}

pub fn renamenx(db: &mut Db, args: Args<'_>) -> Reply {
    if !db.contains(args[1]) {
        return Err(NO_SUCH_KEY);
    }
    if db.contains(args[2]) {
        return Ok(yes_no(false));
    }
    rename(db, args)?;
    Ok(yes_no(true))
}

pub fn copy(db: &mut Db, args: Args<'_>) -> Reply {
    let mut replace = false;
    let mut options = Options::from(args, 3);
    while let Some(option) = options.next() {
        if is(option, "REPLACE") {
            replace = true;
        } else if is(option, "DB") && options.left() > 0 {
            if options.int()? != 0 {
                return Err(Error::fixed("ERR DB index is out of range"));
            }
        } else {
            return Err(SYNTAX);
        }
    }
    if args[1] == args[2] {
        return Err(Error::fixed(
            "ERR source and destination objects are the same",
        ));
    }
    let Some(entry) = db.entry(args[1]) else {
        return Ok(yes_no(false));
    };
    let (value, deadline) = (entry.value.clone(), entry.deadline());
    if !replace && db.contains(args[2]) {
        return Ok(yes_no(false));
    }
    db.put(args[2], value, deadline);
    Ok(yes_no(true))
}
