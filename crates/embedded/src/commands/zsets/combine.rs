//! Unions, intersections and differences. Sets take part with a score of 1 for each member.
//!
//! Scores are combined from the smallest source to the largest, as in Redis: sums of floats depend on the order.

use foldhash::fast::RandomState;
use indexmap::IndexMap;

use crate::args::{Args, Options, is};
use crate::commands::counts::{NEGATIVE_LIMIT, at_least};
use crate::db::Db;
use crate::error::{Error, Reply, SYNTAX, WRONG_TYPE};
use crate::number::{int, parse_float};
use crate::reply::count;
use crate::value::{Blob, Score, Set, Value, ZSet};

use super::listed;

/// One input.
#[derive(Clone, Copy)]
enum Source<'a> {
    Absent,
    Set(&'a Set),
    ZSet(&'a ZSet),
}

impl<'a> Source<'a> {
    fn len(self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Set(set) => set.len(),
            Self::ZSet(zset) => zset.len(),
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Absent => None,
            Self::Set(set) => set.contains(member).then_some(1.0),
            Self::ZSet(zset) => zset.score(member),
        }
    }

    fn visit(self, mut visit: impl FnMut(&'a Blob, f64)) {
        match self {
            Self::Absent => {}
            Self::Set(set) => set.iter().for_each(|(member, ())| visit(member, 1.0)),
            Self::ZSet(zset) => zset.iter().for_each(|(member, score)| visit(member, score)),
        }
    }
}

/// The inputs of all keys at once.
fn sources<'a>(db: &'a mut Db, keys: Args<'_>) -> Result<Vec<Source<'a>>, Error> {
    for key in keys {
        match db.entry(key).map(|entry| &entry.value) {
            None | Some(Value::Set(_) | Value::ZSet(_)) => {}
            Some(_) => return Err(WRONG_TYPE),
        }
    }
    let keyspace = db.keys();
    let source = |key: &&[u8]| match keyspace.get(key).map(|entry| &entry.value) {
        Some(Value::Set(set)) => Source::Set(set),
        Some(Value::ZSet(zset)) => Source::ZSet(zset),
        _ => Source::Absent,
    };
    Ok(keys.iter().map(source).collect())
}

/// How the scores of one member become one.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn parse(arg: &[u8]) -> Result<Self, Error> {
        let known = [("SUM", Self::Sum), ("MIN", Self::Min), ("MAX", Self::Max)];
        known
            .into_iter()
            .find(|(name, _)| is(arg, name))
            .map(|(_, known)| known)
            .ok_or(SYNTAX)
    }

    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum => or_zero(a + b),
            Self::Min => {
                if b < a {
                    b
                } else {
                    a
                }
            }
            Self::Max => {
                if b > a {
                    b
                } else {
                    a
                }
            }
        }
    }
}

/// Opposite infinities cancel out, and an infinity weighted with 0 is nothing.
fn or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Inter,
    Diff,
}

/// What happens with the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    Answer,
    Store,
    Count,
}

/// `numkeys key … [options]`.
struct Query<'a> {
    keys: Args<'a>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: usize,
}

impl<'a> Query<'a> {
    /// Reads the number of keys at position `at` and what follows. The keys' types are checked before the options, as
    /// in Redis.
    fn parse(
        db: &mut Db,
        args: Args<'a>,
        at: usize,
        operation: Operation,
        goal: Goal,
    ) -> Result<Self, Error> {
        let keys = int(args[at])?;
        if keys < 1 {
            let name = String::from_utf8_lossy(args[0]).to_ascii_lowercase();
            return Err(Error::new(format!(
                "ERR at least 1 input key is needed for '{name}' command"
            )));
        }
        let keys = usize::try_from(keys).map_err(|_| SYNTAX)?;
        let keys = args[at + 1..].get(..keys).ok_or(SYNTAX)?;
        sources(db, keys)?;
        let (weights, aggregate) = (vec![1.0; keys.len()], Aggregate::Sum);
        let mut query = Self {
            keys,
            weights,
            aggregate,
            with_scores: false,
            limit: usize::MAX,
        };
        query.options(Options::from(args, at + 1 + keys.len()), operation, goal)?;
        Ok(query)
    }

    fn options(
        &mut self,
        mut options: Options<'_>,
        operation: Operation,
        goal: Goal,
    ) -> Result<(), Error> {
        const NOT_A_WEIGHT: Error = Error::fixed("ERR weight value is not a float");
        let weighs = operation != Operation::Diff && goal != Goal::Count;
        while let Some(option) = options.next() {
            if weighs && is(option, "WEIGHTS") && options.left() >= self.keys.len() {
                for weight in &mut self.weights {
                    *weight = parse_float(options.value()?).ok_or(NOT_A_WEIGHT)?;
                }
            } else if weighs && is(option, "AGGREGATE") {
                self.aggregate = Aggregate::parse(options.value()?)?;
            } else if goal == Goal::Answer && is(option, "WITHSCORES") {
                self.with_scores = true;
            } else if goal == Goal::Count && is(option, "LIMIT") {
                let limit = at_least(0, options.value()?, NEGATIVE_LIMIT)?;
                self.limit = if limit == 0 { usize::MAX } else { limit };
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(())
    }

    /// The inputs with their weights, smallest first.
    fn weighted<'d>(&self, db: &'d mut Db) -> Result<Vec<(Source<'d>, f64)>, Error> {
        let sources = sources(db, self.keys)?;
        let mut sources: Vec<_> = sources
            .into_iter()
            .zip(self.weights.iter().copied())
            .collect();
        sources.sort_by_key(|(source, _)| source.len());
        Ok(sources)
    }

    fn union(&self, db: &mut Db) -> Result<Items, Error> {
        let mut result: IndexMap<&Blob, f64, RandomState> = IndexMap::default();
        for (source, weight) in self.weighted(db)? {
            source.visit(|member, score| {
                let score = or_zero(weight * score);
                result
                    .entry(member)
                    .and_modify(|sum| *sum = self.aggregate.of(*sum, score))
                    .or_insert(score);
            });
        }
        Ok(result
            .into_iter()
            .map(|(member, score)| (Score(score), member.clone()))
            .collect())
    }

    fn intersection(&self, db: &mut Db) -> Result<Items, Error> {
        let sources = self.weighted(db)?;
        let mut result = Items::new();
        let Some(((smallest, weight), others)) = sources.split_first() else {
            return Ok(result);
        };
        smallest.visit(|member, score| {
            if result.len() >= self.limit {
                return;
            }
            let mut all = or_zero(weight * score);
            for (other, weight) in others {
                let Some(score) = other.score(member) else {
                    return;
                };
                all = self.aggregate.of(all, score * weight);
            }
            result.push((Score(all), member.clone()));
        });
        Ok(result)
    }

    fn difference(&self, db: &mut Db) -> Result<Items, Error> {
        let sources = sources(db, self.keys)?;
        let mut result = Items::new();
        let Some((first, others)) = sources.split_first() else {
            return Ok(result);
        };
        first.visit(|member, score| {
            if others.iter().all(|other| other.score(member).is_none()) {
                result.push((Score(score), member.clone()));
            }
        });
        Ok(result)
    }

    fn run(&self, db: &mut Db, operation: Operation) -> Result<Items, Error> {
        match operation {
            Operation::Union => self.union(db),
            Operation::Inter => self.intersection(db),
            Operation::Diff => self.difference(db),
        }
    }
}

type Items = Vec<(Score, Blob)>;

fn answered(db: &mut Db, args: Args<'_>, operation: Operation) -> Reply {
    let query = Query::parse(db, args, 1, operation, Goal::Answer)?;
    let mut items = query.run(db, operation)?;
    items.sort_unstable();
    Ok(listed(
        items.iter().map(|(score, member)| (member, score.0)),
        query.with_scores,
    ))
}

fn stored(db: &mut Db, args: Args<'_>, operation: Operation) -> Reply {
    let query = Query::parse(db, args, 2, operation, Goal::Store)?;
    let items = query.run(db, operation)?;
    let mut result = ZSet::default();
    for (score, member) in items {
        result.insert(member, score.0);
    }
    let len = result.len();
    db.put(args[1], Value::ZSet(result), None);
    Ok(count(len))
}

pub fn zunion(db: &mut Db, args: Args<'_>) -> Reply {
    answered(db, args, Operation::Union)
}

pub fn zinter(db: &mut Db, args: Args<'_>) -> Reply {
    answered(db, args, Operation::Inter)
}

pub fn zdiff(db: &mut Db, args: Args<'_>) -> Reply {
    answered(db, args, Operation::Diff)
}

pub fn zintercard(db: &mut Db, args: Args<'_>) -> Reply {
    let query = Query::parse(db, args, 1, Operation::Inter, Goal::Count)?;
    Ok(count(query.run(db, Operation::Inter)?.len()))
}

pub fn zunionstore(db: &mut Db, args: Args<'_>) -> Reply {
    stored(db, args, Operation::Union)
}

pub fn zinterstore(db: &mut Db, args: Args<'_>) -> Reply {
    stored(db, args, Operation::Inter)
}

pub fn zdiffstore(db: &mut Db, args: Args<'_>) -> Reply {
    stored(db, args, Operation::Diff)
}
