//! Unions, intersections and differences of sorted sets. A set can be an input too, with a score of 1 for each member.
//!
//! As in Redis, scores are combined from the smallest input to the largest, because sums of floats depend on the order.

use foldhash::fast::RandomState;
use indexmap::IndexMap;

use crate::commands::args::{Args, OptionArgs, is_option};
use crate::commands::count_args::parse_limit;
use crate::commands::reply::integer;
use crate::db::Db;
use crate::error::{CommandError, CommandResult, SYNTAX_ERROR, WRONG_TYPE};
use crate::numbers::{parse_float, parse_int_arg};
use crate::values::{Score, Set, SharedBytes, StoredValue, ZSet};

use super::members_reply;

#[derive(Clone, Copy)]
enum ZsetInput<'a> {
    Absent,
    Set(&'a Set),
    ZSet(&'a ZSet),
}

impl<'a> ZsetInput<'a> {
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

    fn visit(self, mut visit: impl FnMut(&'a SharedBytes, f64)) {
        match self {
            Self::Absent => {}
            Self::Set(set) => set.iter().for_each(|(member, ())| visit(member, 1.0)),
            Self::ZSet(zset) => zset.iter().for_each(|(member, score)| visit(member, score)),
        }
    }
}

fn inputs_of_keys<'a>(db: &'a mut Db, keys: Args<'_>) -> Result<Vec<ZsetInput<'a>>, CommandError> {
    for key in keys {
        match db.entry(key).map(|entry| &entry.value) {
            None | Some(StoredValue::Set(_) | StoredValue::ZSet(_)) => {}
            Some(_) => return Err(WRONG_TYPE),
        }
    }
    let dict = db.dict();
    let input = |key: &&[u8]| match dict.get(key).map(|entry| &entry.value) {
        Some(StoredValue::Set(set)) => ZsetInput::Set(set),
        Some(StoredValue::ZSet(zset)) => ZsetInput::ZSet(zset),
        _ => ZsetInput::Absent,
    };
    Ok(keys.iter().map(input).collect())
}

/// How several scores of one member become one score.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn parse(arg: &[u8]) -> Result<Self, CommandError> {
        let known = [("SUM", Self::Sum), ("MIN", Self::Min), ("MAX", Self::Max)];
        known
            .into_iter()
            .find(|(name, _)| is_option(arg, name))
            .map(|(_, known)| known)
            .ok_or(SYNTAX_ERROR)
    }

    fn combine(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum => nan_to_zero(a + b),
            Self::Min if b < a => b,
            Self::Max if b > a => b,
            Self::Min | Self::Max => a,
        }
    }
}

/// NaN becomes 0: opposite infinities cancel out, and an infinity times 0 is 0.
fn nan_to_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// Operation on several sorted sets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ZsetOperation {
    Union,
    Inter,
    Diff,
}

/// Use of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ZsetResultTarget {
    Reply,
    Store,
    Count,
}

/// Arguments `numkeys key … [options]`.
struct ZsetOperationArgs<'a> {
    keys: Args<'a>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: usize,
}

impl<'a> ZsetOperationArgs<'a> {
    /// Parses the number of keys at position `at` and all that follows. As in Redis, the types of the keys are checked
    /// before the options.
    fn parse(
        db: &mut Db,
        args: Args<'a>,
        at: usize,
        operation: ZsetOperation,
        target: ZsetResultTarget,
    ) -> Result<Self, CommandError> {
        let keys = parse_int_arg(args[at])?;
        if keys < 1 {
            let name = String::from_utf8_lossy(args[0]).to_ascii_lowercase();
            return Err(CommandError::new(format!(
                "ERR at least 1 input key is needed for '{name}' command"
            )));
        }
        let keys = usize::try_from(keys).map_err(|_| SYNTAX_ERROR)?;
        let keys = args[at + 1..].get(..keys).ok_or(SYNTAX_ERROR)?;
        inputs_of_keys(db, keys)?;
        let (weights, aggregate) = (vec![1.0; keys.len()], Aggregate::Sum);
        let mut query = Self {
            keys,
            weights,
            aggregate,
            with_scores: false,
            limit: usize::MAX,
        };
        query.options(
            OptionArgs::starting_at(args, at + 1 + keys.len()),
            operation,
            target,
        )?;
        Ok(query)
    }

    fn options(
        &mut self,
        mut options: OptionArgs<'_>,
        operation: ZsetOperation,
        target: ZsetResultTarget,
    ) -> Result<(), CommandError> {
        const NOT_A_WEIGHT: CommandError =
            CommandError::from_static("ERR weight value is not a float");
        let allows_weights = operation != ZsetOperation::Diff && target != ZsetResultTarget::Count;
        while let Some(option) = options.next() {
            if allows_weights
                && is_option(option, "WEIGHTS")
                && options.remaining() >= self.keys.len()
            {
                for weight in &mut self.weights {
                    *weight = parse_float(options.next_value()?).ok_or(NOT_A_WEIGHT)?;
                }
            } else if allows_weights && is_option(option, "AGGREGATE") {
                self.aggregate = Aggregate::parse(options.next_value()?)?;
            } else if target == ZsetResultTarget::Reply && is_option(option, "WITHSCORES") {
                self.with_scores = true;
            } else if target == ZsetResultTarget::Count && is_option(option, "LIMIT") {
                self.limit = parse_limit(options.next_value()?)?;
            } else {
                return Err(SYNTAX_ERROR);
            }
        }
        Ok(())
    }

    /// Inputs with their weights, smallest input first.
    fn weighted_inputs<'d>(
        &self,
        db: &'d mut Db,
    ) -> Result<Vec<(ZsetInput<'d>, f64)>, CommandError> {
        let inputs = inputs_of_keys(db, self.keys)?;
        let mut inputs: Vec<_> = inputs
            .into_iter()
            .zip(self.weights.iter().copied())
            .collect();
        inputs.sort_by_key(|(input, _)| input.len());
        Ok(inputs)
    }

    fn union(&self, db: &mut Db) -> Result<Items, CommandError> {
        let mut result: IndexMap<&SharedBytes, f64, RandomState> = IndexMap::default();
        for (input, weight) in self.weighted_inputs(db)? {
            input.visit(|member, score| {
                let score = nan_to_zero(weight * score);
                result
                    .entry(member)
                    .and_modify(|sum| *sum = self.aggregate.combine(*sum, score))
                    .or_insert(score);
            });
        }
        Ok(result
            .into_iter()
            .map(|(member, score)| (Score(score), member.clone()))
            .collect())
    }

    fn intersection(&self, db: &mut Db) -> Result<Items, CommandError> {
        let inputs = self.weighted_inputs(db)?;
        let mut result = Items::new();
        let Some(((smallest, weight), others)) = inputs.split_first() else {
            return Ok(result);
        };
        smallest.visit(|member, score| {
            if result.len() >= self.limit {
                return;
            }
            let mut all = nan_to_zero(weight * score);
            for (other, weight) in others {
                let Some(score) = other.score(member) else {
                    return;
                };
                all = self.aggregate.combine(all, score * weight);
            }
            result.push((Score(all), member.clone()));
        });
        Ok(result)
    }

    fn difference(&self, db: &mut Db) -> Result<Items, CommandError> {
        let inputs = inputs_of_keys(db, self.keys)?;
        let mut result = Items::new();
        let Some((first, others)) = inputs.split_first() else {
            return Ok(result);
        };
        first.visit(|member, score| {
            if others.iter().all(|other| other.score(member).is_none()) {
                result.push((Score(score), member.clone()));
            }
        });
        Ok(result)
    }

    fn run(&self, db: &mut Db, operation: ZsetOperation) -> Result<Items, CommandError> {
        match operation {
            ZsetOperation::Union => self.union(db),
            ZsetOperation::Inter => self.intersection(db),
            ZsetOperation::Diff => self.difference(db),
        }
    }
}

type Items = Vec<(Score, SharedBytes)>;

pub fn reply_combined(db: &mut Db, args: Args<'_>, operation: ZsetOperation) -> CommandResult {
    let query = ZsetOperationArgs::parse(db, args, 1, operation, ZsetResultTarget::Reply)?;
    let mut items = query.run(db, operation)?;
    items.sort_unstable();
    Ok(members_reply(
        items.iter().map(|(score, member)| (member, score.0)),
        query.with_scores,
    ))
}

pub fn store_combined(db: &mut Db, args: Args<'_>, operation: ZsetOperation) -> CommandResult {
    let query = ZsetOperationArgs::parse(db, args, 2, operation, ZsetResultTarget::Store)?;
    let items = query.run(db, operation)?;
    let mut result = ZSet::default();
    for (score, member) in items {
        result.insert(member, score.0);
    }
    let len = result.len();
    db.replace_value(args[1], StoredValue::ZSet(result), None);
    Ok(integer(len))
}

pub fn zintercard(db: &mut Db, args: Args<'_>) -> CommandResult {
    let query =
        ZsetOperationArgs::parse(db, args, 1, ZsetOperation::Inter, ZsetResultTarget::Count)?;
    Ok(integer(query.run(db, ZsetOperation::Inter)?.len()))
}
