//! Lists. A change at an end costs one row on disk; one in the middle costs the whole list.

use redis::Value;

use crate::args::{Args, Options, is, window};
use crate::commands::counts::{MultiPop, at_least};
use crate::db::Db;
use crate::edit::Edit;
use crate::error::{Error, INDEX_OUT_OF_RANGE, MUST_BE_POSITIVE, NO_SUCH_KEY, Reply, SYNTAX};
use crate::number::int;
use crate::reply::{NIL, OK, array, bulk, bulk_or_nil, bulks, count};
use crate::value::{Blob, End, List};

fn push_all(list: &mut Edit<'_, List>, end: End, items: Args<'_>) -> Reply {
    for item in items {
        list.push(end, item);
    }
    Ok(count(list.len()))
}

fn push(db: &mut Db, args: Args<'_>, end: End) -> Reply {
    db.edit(args[1], |list| push_all(list, end, &args[2..]))
}

fn push_existing(db: &mut Db, args: Args<'_>, end: End) -> Reply {
    let len = db.edit_existing(args[1], |list| push_all(list, end, &args[2..]))?;
    Ok(len.unwrap_or(Value::Int(0)))
}

pub fn lpush(db: &mut Db, args: Args<'_>) -> Reply {
    push(db, args, End::Head)
}

pub fn rpush(db: &mut Db, args: Args<'_>) -> Reply {
    push(db, args, End::Tail)
}

pub fn lpushx(db: &mut Db, args: Args<'_>) -> Reply {
    push_existing(db, args, End::Head)
}

pub fn rpushx(db: &mut Db, args: Args<'_>) -> Reply {
    push_existing(db, args, End::Tail)
}

fn pop_several(list: &mut Edit<'_, List>, end: End, wanted: usize) -> Value {
    let wanted = wanted.min(list.len());
    array((0..wanted).map(|_| bulk_or_nil(list.pop(end))))
}

fn pop(db: &mut Db, args: Args<'_>, end: End, name: &str) -> Reply {
    if args.len() > 3 {
        return Err(Error::wrong_arity(name));
    }
    let wanted = args
        .get(2)
        .map(|arg| at_least(0, arg, MUST_BE_POSITIVE))
        .transpose()?;
    let popped = db.edit_existing::<List, _>(args[1], |list| {
        Ok(match wanted {
            None => bulk_or_nil(list.pop(end)),
            Some(wanted) => pop_several(list, end, wanted),
        })
    })?;
    Ok(popped.unwrap_or(NIL))
}

pub fn lpop(db: &mut Db, args: Args<'_>) -> Reply {
    pop(db, args, End::Head, "lpop")
}

pub fn rpop(db: &mut Db, args: Args<'_>) -> Reply {
    pop(db, args, End::Tail, "rpop")
}

pub fn lmpop(db: &mut Db, args: Args<'_>) -> Reply {
    let asked = MultiPop::parse(args, "LEFT", "RIGHT")?;
    let end = if asked.from_first {
        End::Head
    } else {
        End::Tail
    };
    for key in asked.keys {
        let popped = db.edit_existing(key, |list| Ok(pop_several(list, end, asked.count)))?;
        if let Some(popped) = popped {
            return Ok(array([bulk(*key), popped]));
        }
    }
    Ok(NIL)
}

pub fn llen(db: &mut Db, args: Args<'_>) -> Reply {
    Ok(count(db.read::<List>(args[1])?.map_or(0, List::len)))
}

pub fn lrange(db: &mut Db, args: Args<'_>) -> Reply {
    let (start, stop) = (int(args[2])?, int(args[3])?);
    let Some(list) = db.read::<List>(args[1])? else {
        return Ok(array([]));
    };
    Ok(bulks(list.items().range(window(start, stop, list.len()))))
}

/// The place an index means, which counts from the tail when negative.
fn place(index: i64, len: usize) -> Option<usize> {
    match index {
        0.. => usize::try_from(index).ok().filter(|index| *index < len),
        _ => len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

pub fn lindex(db: &mut Db, args: Args<'_>) -> Reply {
    // Without the key, Redis does not look at the index.
    let Some(list) = db.read::<List>(args[1])? else {
        return Ok(NIL);
    };
    let place = place(int(args[2])?, list.len());
    Ok(bulk_or_nil(place.and_then(|place| list.items().get(place))))
}

pub fn lset(db: &mut Db, args: Args<'_>) -> Reply {
    let set = db.edit_existing::<List, _>(args[1], |list| {
        let place = place(int(args[2])?, list.len()).ok_or(INDEX_OUT_OF_RANGE)?;
        list.set(place, args[3]);
        Ok(OK)
    })?;
    set.ok_or(NO_SUCH_KEY)
}

pub fn linsert(db: &mut Db, args: Args<'_>) -> Reply {
    let behind = is(args[2], "AFTER");
    if !behind && !is(args[2], "BEFORE") {
        return Err(SYNTAX);
    }
    let len = db.edit_existing::<List, _>(args[1], |list| {
        let Some(pivot) = list.items().iter().position(|item| **item == *args[3]) else {
            return Ok(Value::Int(-1));
        };
        list.insert(pivot + usize::from(behind), args[4]);
        Ok(count(list.len()))
    })?;
    Ok(len.unwrap_or(Value::Int(0)))
}

pub fn lrem(db: &mut Db, args: Args<'_>) -> Reply {
    let wanted = int(args[2])?;
    let most = match wanted {
        0 => usize::MAX,
        _ => usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX),
    };
    let removed = db.edit_existing::<List, _>(args[1], |list| {
        let hit = |(at, item): (usize, &Blob)| (**item == *args[3]).then_some(at);
        let items = list.items().iter().enumerate();
        let positions: Vec<usize> = if wanted < 0 {
            let mut positions: Vec<_> = items.rev().filter_map(hit).take(most).collect();
            positions.reverse();
            positions
        } else {
            items.filter_map(hit).take(most).collect()
        };
        list.remove(&positions);
        Ok(positions.len())
    })?;
    Ok(count(removed.unwrap_or(0)))
}

pub fn ltrim(db: &mut Db, args: Args<'_>) -> Reply {
    let (start, stop) = (int(args[2])?, int(args[3])?);
    let Some(list) = db.read::<List>(args[1])? else {
        return Ok(OK);
    };
    let keep = window(start, stop, list.len());
    if keep.is_empty() {
        db.delete(args[1]);
        return Ok(OK);
    }
    db.edit_existing::<List, _>(args[1], |list| {
        for _ in keep.end..list.len() {
            list.pop_back();
        }
        for _ in 0..keep.start {
            list.pop_front();
        }
        Ok(())
    })?;
    Ok(OK)
}

/// `RANK`, `COUNT` and `MAXLEN` of `LPOS`.
struct Search {
    rank: i64,
    count: Option<usize>,
    /// How many items are looked at, 0 for all.
    most: usize,
}

fn search(args: Args<'_>) -> Result<Search, Error> {
    const NO_RANK: Error = Error::fixed(
        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
         or use negative to start from the end of the list",
    );
    const NEGATIVE_COUNT: Error = Error::fixed("ERR COUNT can't be negative");
    const NEGATIVE_MAXLEN: Error = Error::fixed("ERR MAXLEN can't be negative");
    let mut search = Search {
        rank: 1,
        count: None,
        most: 0,
    };
    let mut options = Options::from(args, 3);
    while let Some(option) = options.next() {
        if is(option, "RANK") {
            search.rank = options.int()?;
            if search.rank == 0 {
                return Err(NO_RANK);
            }
        } else if is(option, "COUNT") {
            search.count = Some(at_least(0, options.value()?, NEGATIVE_COUNT)?);
        } else if is(option, "MAXLEN") {
            search.most = at_least(0, options.value()?, NEGATIVE_MAXLEN)?;
        } else {
            return Err(SYNTAX);
        }
    }
    Ok(search)
}

pub fn lpos(db: &mut Db, args: Args<'_>) -> Reply {
    let search = search(args)?;
    let list = db.read::<List>(args[1])?;
    let items = list
        .into_iter()
        .flat_map(|list| list.items().iter().enumerate());
    let most = if search.most == 0 {
        usize::MAX
    } else {
        search.most
    };
    // The lowest number has no positive counterpart; it stands for the first match, as in Redis.
    let skip = usize::try_from(search.rank.wrapping_abs()).map_or(0, |rank| rank - 1);
    let hit = |(at, item): (usize, &Blob)| (**item == *args[2]).then(|| count(at));
    let wanted = match search.count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count,
    };
    let found: Vec<Value> = if search.rank < 0 {
        items
            .rev()
            .take(most)
            .filter_map(hit)
            .skip(skip)
            .take(wanted)
            .collect()
    } else {
        items
            .take(most)
            .filter_map(hit)
            .skip(skip)
            .take(wanted)
            .collect()
    };
    match search.count {
        None => Ok(found.into_iter().next().unwrap_or(NIL)),
        Some(_) => Ok(Value::Array(found)),
    }
}

fn end(arg: &[u8]) -> Result<End, Error> {
    if is(arg, "LEFT") {
        Ok(End::Head)
    } else if is(arg, "RIGHT") {
        Ok(End::Tail)
    } else {
        Err(SYNTAX)
    }
}

fn move_item(db: &mut Db, args: Args<'_>, from: End, to: End) -> Reply {
    let (source, target) = (args[1], args[2]);
    if db.read::<List>(source)?.is_none() {
        return Ok(NIL);
    }
    db.read::<List>(target)?;
    let item = db.edit_existing::<List, _>(source, |list| {
        let item = list.pop(from);
        // A list of one item must not be gone in between, since its deadline would go with it.
        if let Some(item) = &item
            && source == target
        {
            list.push(to, item);
        }
        Ok(item)
    })?;
    let Some(item) = item.flatten() else {
        return Ok(NIL);
    };
    if source != target {
        db.edit::<List, _>(target, |list| {
            list.push(to, &item);
            Ok(())
        })?;
    }
    Ok(bulk(&*item))
}

pub fn lmove(db: &mut Db, args: Args<'_>) -> Reply {
    let (from, to) = (end(args[3])?, end(args[4])?);
    move_item(db, args, from, to)
}

pub fn rpoplpush(db: &mut Db, args: Args<'_>) -> Reply {
    move_item(db, args, End::Tail, End::Head)
}
