//! Hashes.

use redis::Value;

use crate::args::{Args, is, lossy};
use crate::commands::random;
use crate::commands::scan::Scan;
use crate::db::Db;
use crate::error::{Error, OVERFLOW, Reply, SYNTAX};
use crate::number::{add_floats, float, int, parse_float, parse_int};
use crate::reply::{NIL, OK, array, bulk, bulk_or_nil, bulks, count, scanned, yes_no};
use crate::value::{Blob, Hash, Map};

/// Sets pairs of field and value behind the key. How many fields are new.
fn set_pairs(db: &mut Db, args: Args<'_>) -> Result<usize, Error> {
    if !args.len().is_multiple_of(2) {
        return Err(Error::wrong_arity(&lossy(args[0])));
    }
    db.edit::<Hash, _>(args[1], |hash| {
        Ok(args[2..]
            .chunks_exact(2)
            .filter(|pair| hash.insert(pair[0], pair[1]))
            .count())
    })
}

pub fn hset(db: &mut Db, args: Args<'_>) -> Reply {
    set_pairs(db, args).map(count)
}

pub fn hmset(db: &mut Db, args: Args<'_>) -> Reply {
    set_pairs(db, args).map(|_| OK)
}

pub fn hsetnx(db: &mut Db, args: Args<'_>) -> Reply {
    let set = db.edit::<Hash, _>(args[1], |hash| {
        Ok(!hash.contains(args[2]) && hash.insert(args[2], args[3]))
    })?;
    Ok(yes_no(set))
}

pub fn hget(db: &mut Db, args: Args<'_>) -> Reply {
    let hash = db.read::<Hash>(args[1])?;
    Ok(bulk_or_nil(hash.and_then(|hash| hash.get(args[2]))))
}

pub fn hmget(db: &mut Db, args: Args<'_>) -> Reply {
    let hash = db.read::<Hash>(args[1])?;
    let one = |field: &&[u8]| bulk_or_nil(hash.and_then(|hash| hash.get(field)));
    Ok(array(args[2..].iter().map(one)))
}

pub fn hgetall(db: &mut Db, args: Args<'_>) -> Reply {
    let Some(hash) = db.read::<Hash>(args[1])? else {
        return Ok(array([]));
    };
    Ok(bulks(hash.iter().flat_map(|(field, value)| [field, value])))
}

pub fn hkeys(db: &mut Db, args: Args<'_>) -> Reply {
    let Some(hash) = db.read::<Hash>(args[1])? else {
        return Ok(array([]));
    };
    Ok(bulks(hash.iter().map(|(field, _)| field)))
}

pub fn hvals(db: &mut Db, args: Args<'_>) -> Reply {
    let Some(hash) = db.read::<Hash>(args[1])? else {
        return Ok(array([]));
    };
    Ok(bulks(hash.iter().map(|(_, value)| value)))
}

pub fn hdel(db: &mut Db, args: Args<'_>) -> Reply {
    let gone = db.edit_existing::<Hash, _>(args[1], |hash| {
        Ok(args[2..]
            .iter()
            .filter(|field| hash.remove(field).is_some())
            .count())
    })?;
    Ok(count(gone.unwrap_or(0)))
}

pub fn hlen(db: &mut Db, args: Args<'_>) -> Reply {
    Ok(count(db.read::<Hash>(args[1])?.map_or(0, Map::len)))
}

pub fn hexists(db: &mut Db, args: Args<'_>) -> Reply {
    Ok(yes_no(
        db.read::<Hash>(args[1])?
            .is_some_and(|hash| hash.contains(args[2])),
    ))
}

pub fn hstrlen(db: &mut Db, args: Args<'_>) -> Reply {
    let value = db.read::<Hash>(args[1])?.and_then(|hash| hash.get(args[2]));
    Ok(count(value.map_or(0, |value| value.len())))
}

pub fn hincrby(db: &mut Db, args: Args<'_>) -> Reply {
    const NOT_AN_INTEGER: Error = Error::fixed("ERR hash value is not an integer");
    let by = int(args[3])?;
    db.edit::<Hash, _>(args[1], |hash| {
        let old = match hash.get(args[2]) {
            None => 0,
            Some(value) => parse_int(value).ok_or(NOT_AN_INTEGER)?,
        };
        let new = old.checked_add(by).ok_or(OVERFLOW)?;
        hash.insert(args[2], new.to_string().as_bytes());
        Ok(Value::Int(new))
    })
}

pub fn hincrbyfloat(db: &mut Db, args: Args<'_>) -> Reply {
    const NOT_A_FLOAT: Error = Error::fixed("ERR hash value is not a float");
    const NOT_FINITE: Error = Error::fixed("ERR value is NaN or Infinity");
    if float(args[3])?.is_infinite() {
        return Err(NOT_FINITE);
    }
    db.edit::<Hash, _>(args[1], |hash| {
        let old = hash.get(args[2]).map_or(&b"0"[..], |value| value);
        parse_float(old).ok_or(NOT_A_FLOAT)?;
        let new = add_floats(old, args[3])?;
        hash.insert(args[2], new.as_bytes());
        Ok(bulk(new))
    })
}

pub fn hrandfield(db: &mut Db, args: Args<'_>) -> Reply {
    let with_values = match args.get(3..) {
        Some([]) | None => false,
        Some([option]) if is(option, "WITHVALUES") => true,
        Some(_) => return Err(SYNTAX),
    };
    let seed = db.random();
    let Some(wanted) = args.get(2) else {
        let hash = db.read::<Hash>(args[1])?;
        let picked = hash.and_then(|hash| hash.at(random::one(seed, hash.len())));
        return Ok(picked.map_or(NIL, |(field, _)| bulk(&**field)));
    };
    let wanted = random::wanted(wanted, with_values)?;
    let Some(hash) = db.read::<Hash>(args[1])? else {
        return Ok(array([]));
    };
    let picked = random::several(seed, hash.len(), wanted)
        .into_iter()
        .filter_map(|at| hash.at(at));
    Ok(match with_values {
        true => bulks(picked.flat_map(|(field, value)| [field, value])),
        false => bulks(picked.map(|(field, _)| field)),
    })
}

pub fn hscan(db: &mut Db, args: Args<'_>) -> Reply {
    let Some(scan) = Scan::of::<Hash>(db, args)? else {
        return Ok(scanned(0, Vec::new()));
    };
    let Some(hash) = db.read::<Hash>(args[1])? else {
        return Ok(scanned(0, Vec::new()));
    };
    let mut found = Vec::new();
    let next = hash.scan(scan.cursor, scan.count, |field: &Blob, value: &Blob| {
        if scan.wants(field) {
            found.extend([bulk(&**field), bulk(&**value)]);
        }
    });
    Ok(scanned(next, found))
}
