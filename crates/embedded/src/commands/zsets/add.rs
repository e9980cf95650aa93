//! `ZADD` and `ZINCRBY`, which is `ZADD INCR` under another name.

use smallvec::SmallVec;

use crate::args::{Args, is};
use crate::db::Db;
use crate::edit::Edit;
use crate::error::{Error, Reply, SYNTAX};
use crate::number::float;
use crate::reply::{NIL, count, score};
use crate::value::ZSet;

/// What `ZADD` was asked to do besides adding.
#[derive(Default)]
struct Rules {
    only_new: bool,
    only_existing: bool,
    only_greater: bool,
    only_less: bool,
    count_changes: bool,
    increment: bool,
}

impl Rules {
    /// Takes an option; whether it is one.
    fn take(&mut self, option: &[u8]) -> bool {
        let rule = match option {
            _ if is(option, "NX") => &mut self.only_new,
            _ if is(option, "XX") => &mut self.only_existing,
            _ if is(option, "GT") => &mut self.only_greater,
            _ if is(option, "LT") => &mut self.only_less,
            _ if is(option, "CH") => &mut self.count_changes,
            _ if is(option, "INCR") => &mut self.increment,
            _ => return false,
        };
        *rule = true;
        true
    }

    fn check(&self, members: usize) -> Result<(), Error> {
        if self.only_new && self.only_existing {
            return Err(Error::fixed(
                "ERR XX and NX options at the same time are not compatible",
            ));
        }
        let either = self.only_greater || self.only_less;
        if either && self.only_new || self.only_greater && self.only_less {
            return Err(Error::fixed(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if self.increment && members > 1 {
            return Err(Error::fixed(
                "ERR INCR option supports a single increment-element pair",
            ));
        }
        Ok(())
    }

    /// Adds or changes a member as the rules allow.
    fn apply(
        &self,
        zset: &mut Edit<'_, ZSet>,
        member: &[u8],
        score: f64,
    ) -> Result<Outcome, Error> {
        let Some(old) = zset.score(member) else {
            if self.only_existing {
                return Ok(Outcome::Refused);
            }
            zset.add(member, score);
            return Ok(Outcome::Added(score));
        };
        if self.only_new {
            return Ok(Outcome::Refused);
        }
        let new = if self.increment { old + score } else { score };
        if new.is_nan() {
            return Err(Error::fixed("ERR resulting score is not a number (NaN)"));
        }
        if self.only_less && new >= old || self.only_greater && new <= old {
            return Ok(Outcome::Refused);
        }
        if new == old {
            zset.keep(member, old);
            return Ok(Outcome::Same(new));
        }
        zset.change(member, old, new);
        Ok(Outcome::Changed(new))
    }
}

enum Outcome {
    Refused,
    Same(f64),
    Added(f64),
    Changed(f64),
}

fn add(db: &mut Db, args: Args<'_>, mut rules: Rules) -> Reply {
    let options = args[2..]
        .iter()
        .take_while(|option| rules.take(option))
        .count();
    let pairs = &args[2 + options..];
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    rules.check(pairs.len() / 2)?;
    let pairs = pairs.chunks_exact(2);
    let scores = pairs
        .clone()
        .map(|pair| float(pair[0]))
        .collect::<Result<SmallVec<[f64; 4]>, _>>()?;
    let change = |zset: &mut Edit<'_, ZSet>| {
        let (mut added, mut changed, mut last) = (0, 0, None);
        for (pair, score) in pairs.zip(scores) {
            last = match rules.apply(zset, pair[1], score)? {
                Outcome::Refused => None,
                Outcome::Same(score) => Some(score),
                Outcome::Added(score) => {
                    added += 1;
                    Some(score)
                }
                Outcome::Changed(score) => {
                    changed += 1;
                    Some(score)
                }
            };
        }
        Ok((
            if rules.count_changes {
                added + changed
            } else {
                added
            },
            last,
        ))
    };
    let (changes, last) = match rules.only_existing {
        true => db.edit_existing(args[1], change)?.unwrap_or((0, None)),
        false => db.edit(args[1], change)?,
    };
    Ok(match rules.increment {
        true => last.map_or(NIL, score),
        false => count(changes),
    })
}

pub fn zadd(db: &mut Db, args: Args<'_>) -> Reply {
    add(db, args, Rules::default())
}

pub fn zincrby(db: &mut Db, args: Args<'_>) -> Reply {
    add(
        db,
        args,
        Rules {
            increment: true,
            ..Rules::default()
        },
    )
}
