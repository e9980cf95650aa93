//! List commands. A change at an end writes one row to disk, a change in the middle the whole list.

use redis::Value;

use crate::commands::args::{Args, OptionArgs, is_option, resolve_range, to_error_text};
use crate::commands::count_args::{MpopArgs, parse_count};
use crate::commands::reply::{NIL, OK, array, bulk, bulk_array, bulk_or_nil, integer};
use crate::db::Db;
use crate::db::journaled_collection::JournaledCollection;
use crate::error::{
    CommandError, CommandResult, INDEX_OUT_OF_RANGE, MUST_BE_POSITIVE, NO_SUCH_KEY, SYNTAX_ERROR,
};
use crate::numbers::parse_int_arg;
use crate::values::{List, ListEnd, SharedBytes};

fn push_all(
    list: &mut JournaledCollection<'_, List>,
    end: ListEnd,
    items: Args<'_>,
) -> CommandResult {
    for item in items {
        list.push(end, item);
    }
    Ok(integer(list.len()))
}

pub fn push(db: &mut Db, args: Args<'_>, end: ListEnd) -> CommandResult {
    db.update_or_create(args[1], |list| push_all(list, end, &args[2..]))
}

pub fn push_existing(db: &mut Db, args: Args<'_>, end: ListEnd) -> CommandResult {
    let len = db.update_existing(args[1], |list| push_all(list, end, &args[2..]))?;
    Ok(len.unwrap_or(Value::Int(0)))
}

fn pop_count(list: &mut JournaledCollection<'_, List>, end: ListEnd, wanted: usize) -> Value {
    let wanted = wanted.min(list.len());
    array((0..wanted).map(|_| bulk_or_nil(list.pop(end))))
}

pub fn pop(db: &mut Db, args: Args<'_>, end: ListEnd) -> CommandResult {
    if args.len() > 3 {
        return Err(CommandError::wrong_arity(&to_error_text(args[0])));
    }
    let wanted = args
        .get(2)
        .map(|arg| parse_count(0, arg, MUST_BE_POSITIVE))
        .transpose()?;
    let popped = db.update_existing::<List, _>(args[1], |list| {
        Ok(match wanted {
            None => bulk_or_nil(list.pop(end)),
            Some(wanted) => pop_count(list, end, wanted),
        })
    })?;
    Ok(popped.unwrap_or(NIL))
}

pub fn lmpop(db: &mut Db, args: Args<'_>) -> CommandResult {
    let options = MpopArgs::parse(args, "LEFT", "RIGHT")?;
    let end = if options.from_start {
        ListEnd::Head
    } else {
        ListEnd::Tail
    };
    for key in options.keys {
        let popped = db.update_existing(key, |list| Ok(pop_count(list, end, options.count)))?;
        if let Some(popped) = popped {
            return Ok(array([bulk(*key), popped]));
        }
    }
    Ok(NIL)
}

pub fn lrange(db: &mut Db, args: Args<'_>) -> CommandResult {
    let (start, stop) = (parse_int_arg(args[2])?, parse_int_arg(args[3])?);
    let Some(list) = db.get_collection::<List>(args[1])? else {
        return Ok(array([]));
    };
    Ok(bulk_array(list.items().range(resolve_range(
        start,
        stop,
        list.len(),
    ))))
}

/// Resolves an index, which counts from the tail if it is negative.
fn resolve_index(index: i64, len: usize) -> Option<usize> {
    match index {
        0.. => usize::try_from(index).ok().filter(|index| *index < len),
        _ => len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

pub fn lindex(db: &mut Db, args: Args<'_>) -> CommandResult {
    // If the key does not exist, Redis does not parse the index.
    let Some(list) = db.get_collection::<List>(args[1])? else {
        return Ok(NIL);
    };
    let index = resolve_index(parse_int_arg(args[2])?, list.len());
    Ok(bulk_or_nil(index.and_then(|index| list.items().get(index))))
}

pub fn lset(db: &mut Db, args: Args<'_>) -> CommandResult {
    let set = db.update_existing::<List, _>(args[1], |list| {
        let index = resolve_index(parse_int_arg(args[2])?, list.len()).ok_or(INDEX_OUT_OF_RANGE)?;
        list.set(index, args[3]);
        Ok(OK)
    })?;
    set.ok_or(NO_SUCH_KEY)
}

pub fn linsert(db: &mut Db, args: Args<'_>) -> CommandResult {
    let after_pivot = is_option(args[2], "AFTER");
    if !after_pivot && !is_option(args[2], "BEFORE") {
        return Err(SYNTAX_ERROR);
    }
    let len = db.update_existing::<List, _>(args[1], |list| {
        let Some(pivot) = list.items().iter().position(|item| **item == *args[3]) else {
            return Ok(Value::Int(-1));
        };
        list.insert(pivot + usize::from(after_pivot), args[4]);
        Ok(integer(list.len()))
    })?;
    Ok(len.unwrap_or(Value::Int(0)))
}

pub fn lrem(db: &mut Db, args: Args<'_>) -> CommandResult {
    let wanted = parse_int_arg(args[2])?;
    let max_matches = match wanted {
        0 => usize::MAX,
        _ => usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX),
    };
    let removed = db.update_existing::<List, _>(args[1], |list| {
        let matching_index = |(at, item): (usize, &SharedBytes)| (**item == *args[3]).then_some(at);
        let items = list.items().iter().enumerate();
        let positions: Vec<usize> = if wanted < 0 {
            let mut positions: Vec<_> = items
                .rev()
                .filter_map(matching_index)
                .take(max_matches)
                .collect();
            positions.reverse();
            positions
        } else {
            items.filter_map(matching_index).take(max_matches).collect()
        };
        list.remove(&positions);
        Ok(positions.len())
    })?;
    Ok(integer(removed.unwrap_or(0)))
}

pub fn ltrim(db: &mut Db, args: Args<'_>) -> CommandResult {
    let (start, stop) = (parse_int_arg(args[2])?, parse_int_arg(args[3])?);
    let Some(list) = db.get_collection::<List>(args[1])? else {
        return Ok(OK);
    };
    let keep = resolve_range(start, stop, list.len());
    if keep.is_empty() {
        db.delete_key(args[1]);
        return Ok(OK);
    }
    db.update_existing::<List, _>(args[1], |list| {
        for _ in keep.end..list.len() {
            list.pop(ListEnd::Tail);
        }
        for _ in 0..keep.start {
            list.pop(ListEnd::Head);
        }
        Ok(())
    })?;
    Ok(OK)
}

/// Options `RANK`, `COUNT` and `MAXLEN` of `LPOS`.
struct LposOptions {
    rank: i64,
    count: Option<usize>,
    /// Number of items to compare, 0 for all.
    max_len: usize,
}

fn parse_lpos_options(args: Args<'_>) -> Result<LposOptions, CommandError> {
    const NO_RANK: CommandError = CommandError::from_static(
        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
         or use negative to start from the end of the list",
    );
    const NEGATIVE_COUNT: CommandError = CommandError::from_static("ERR COUNT can't be negative");
    const NEGATIVE_MAXLEN: CommandError = CommandError::from_static("ERR MAXLEN can't be negative");
    let mut search = LposOptions {
        rank: 1,
        count: None,
        max_len: 0,
    };
    let mut options = OptionArgs::starting_at(args, 3);
    while let Some(option) = options.next() {
        if is_option(option, "RANK") {
            search.rank = options.next_int()?;
            if search.rank == 0 {
                return Err(NO_RANK);
            }
        } else if is_option(option, "COUNT") {
            search.count = Some(parse_count(0, options.next_value()?, NEGATIVE_COUNT)?);
        } else if is_option(option, "MAXLEN") {
            search.max_len = parse_count(0, options.next_value()?, NEGATIVE_MAXLEN)?;
        } else {
            return Err(SYNTAX_ERROR);
        }
    }
    Ok(search)
}

pub fn lpos(db: &mut Db, args: Args<'_>) -> CommandResult {
    let search = parse_lpos_options(args)?;
    let list = db.get_collection::<List>(args[1])?;
    let items = list
        .into_iter()
        .flat_map(|list| list.items().iter().enumerate());
    let max_compared = match search.max_len {
        0 => usize::MAX,
        max_len => max_len,
    };
    // `i64::MIN` has no positive counterpart. As in Redis, it selects the first match.
    let skip = usize::try_from(search.rank.wrapping_abs()).map_or(0, |rank| rank - 1);
    let matching_index =
        |(at, item): (usize, &SharedBytes)| (**item == *args[2]).then(|| integer(at));
    let wanted = match search.count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count,
    };
    let items: Box<dyn Iterator<Item = _>> = match search.rank < 0 {
        true => Box::new(items.rev()),
        false => Box::new(items),
    };
    let found = items.take(max_compared).filter_map(matching_index);
    let mut found = found.skip(skip).take(wanted);
    match search.count {
        None => Ok(found.next().unwrap_or(NIL)),
        Some(_) => Ok(array(found)),
    }
}

fn parse_end(arg: &[u8]) -> Result<ListEnd, CommandError> {
    if is_option(arg, "LEFT") {
        Ok(ListEnd::Head)
    } else if is_option(arg, "RIGHT") {
        Ok(ListEnd::Tail)
    } else {
        Err(SYNTAX_ERROR)
    }
}

pub fn move_item(db: &mut Db, args: Args<'_>, from: ListEnd, to: ListEnd) -> CommandResult {
    let (source, target) = (args[1], args[2]);
    if db.get_collection::<List>(source)?.is_none() {
        return Ok(NIL);
    }
    db.get_collection::<List>(target)?;
    let item = db.update_existing::<List, _>(source, |list| {
        let item = list.pop(from);
        // The item is pushed before the change ends: a list of one item would otherwise be deleted and lose its
        // deadline.
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
        db.update_or_create::<List, _>(target, |list| {
            list.push(to, &item);
            Ok(())
        })?;
    }
    Ok(bulk(&*item))
}

pub fn lmove(db: &mut Db, args: Args<'_>) -> CommandResult {
    let (from, to) = (parse_end(args[3])?, parse_end(args[4])?);
    move_item(db, args, from, to)
}
