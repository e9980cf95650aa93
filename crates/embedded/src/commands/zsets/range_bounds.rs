//! Bounds of ranges by score and by member, and the ranks that they select in a sorted set.

use std::ops::Range;

use crate::error::CommandError;
use crate::values::ZSet;

use super::MAX_LISTPACK_ENTRIES;

/// One bound of a range by score.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ScoreBound {
    score: f64,
    open: bool,
}

impl ScoreBound {
    fn parse(arg: &[u8]) -> Option<Self> {
        let (open, number) = match arg.strip_prefix(b"(") {
            Some(number) => (true, number),
            None => (false, arg),
        };
        // Redis parses score bounds with C's `strtod` alone, unlike scores: leading blanks are allowed, a zero byte
        // ends the number, and an empty text is 0.
        let number = number.split(|&byte| byte == 0).next().unwrap_or_default();
        if number.is_empty() {
            return Some(Self { score: 0.0, open });
        }
        let number = std::str::from_utf8(number).ok()?.trim_ascii_start();
        let score: f64 = number.parse().ok()?;
        (!score.is_nan()).then_some(Self { score, open })
    }
}

#[derive(Debug)]
pub struct ScoreRange {
    min: ScoreBound,
    max: ScoreBound,
}

impl ScoreRange {
    pub fn parse(min: &[u8], max: &[u8]) -> Result<Self, CommandError> {
        let bounds = ScoreBound::parse(min).zip(ScoreBound::parse(max));
        let (min, max) =
            bounds.ok_or(CommandError::from_static("ERR min or max is not a float"))?;
        Ok(Self { min, max })
    }

    /// Ranks in this range.
    pub fn ranks(&self, zset: &ZSet) -> Range<usize> {
        let below = |score: f64| zset.count_before(score, b"");
        let up_to = |score: f64| match score == f64::INFINITY {
            true => zset.len(),
            false => below(score.next_up()),
        };
        let ScoreBound { score: min, open } = self.min;
        let from = if open { up_to(min) } else { below(min) };
        let ScoreBound { score: max, open } = self.max;
        let to = if open { below(max) } else { up_to(max) };
        from..to.max(from)
    }
}

/// One bound of a range by member.
#[derive(Debug, Clone, Copy, PartialEq)]
enum LexBound<'a> {
    Lowest,
    Highest,
    Closed(&'a [u8]),
    Open(&'a [u8]),
}

impl<'a> LexBound<'a> {
    fn parse(arg: &'a [u8]) -> Option<Self> {
        match arg {
            b"-" => Some(Self::Lowest),
            b"+" => Some(Self::Highest),
            [b'[', member @ ..] => Some(Self::Closed(member)),
            [b'(', member @ ..] => Some(Self::Open(member)),
            _ => None,
        }
    }
}

/// A range by member. It has a defined meaning only if all scores are equal. For other scores the result is that of
/// Redis's walk through a listpack.
#[derive(Debug)]
pub struct LexRange<'a> {
    min: LexBound<'a>,
    max: LexBound<'a>,
}

impl<'a> LexRange<'a> {
    pub fn parse(min: &'a [u8], max: &'a [u8]) -> Result<Self, CommandError> {
        let bounds = LexBound::parse(min).zip(LexBound::parse(max));
        let (min, max) = bounds.ok_or(CommandError::from_static(
            "ERR min or max not valid string range item",
        ))?;
        Ok(Self { min, max })
    }

    fn gte_min(&self, member: &[u8]) -> bool {
        match self.min {
            LexBound::Lowest => true,
            LexBound::Highest => false,
            LexBound::Closed(min) => member >= min,
            LexBound::Open(min) => member > min,
        }
    }

    fn lte_max(&self, member: &[u8]) -> bool {
        match self.max {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::Closed(max) => member <= max,
            LexBound::Open(max) => member < max,
        }
    }

    /// Ranks in this range without the first `skip`, searched from the lower end or, if `reverse`, from the upper end.
    pub fn ranks(&self, zset: &ZSet, reverse: bool, skip: usize) -> Range<usize> {
        let len = zset.len();
        let member_passes = |rank, passes: &dyn Fn(&[u8]) -> bool| {
            zset.get_rank(rank)
                .is_some_and(|(member, _)| passes(member))
        };
        let gte_min = |rank: &usize| member_passes(*rank, &|member| self.gte_min(member));
        let lte_max = |rank: &usize| member_passes(*rank, &|member| self.lte_max(member));
        if len > MAX_LISTPACK_ENTRIES {
            let from = partition_rank(len, |rank| gte_min(&rank));
            let to = partition_rank(len, |rank| !lte_max(&rank));
            return skip_ranks(from..to.max(from), reverse, skip);
        }
        if len == 0 || !gte_min(&(len - 1)) || !lte_max(&0) {
            return 0..0;
        }
        // The walk does not compare skipped members with the other bound.
        if reverse {
            let last = (0..len).rev().find(lte_max).filter(gte_min);
            let to = last.map_or(0, |last| (last + 1).saturating_sub(skip));
            return to - (0..to).rev().take_while(gte_min).count()..to;
        }
        let first = (0..len).find(gte_min).filter(lte_max);
        let from = first.map_or(len, |first| first.saturating_add(skip).min(len));
        from..from + (from..len).take_while(lte_max).count()
    }
}

/// Ranks without the first or, if `reverse`, the last `skip`.
pub fn skip_ranks(ranks: Range<usize>, reverse: bool, skip: usize) -> Range<usize> {
    let skip = skip.min(ranks.len());
    match reverse {
        true => ranks.start..ranks.end - skip,
        false => ranks.start + skip..ranks.end,
    }
}

/// Binary search: the first rank below `len` that passes. All ranks after it must pass too.
fn partition_rank(len: usize, passes: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if passes(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zset(size: u32, score: impl Fn(u32) -> f64) -> ZSet {
        let mut zset = ZSet::default();
        for n in 0..size {
            zset.insert(format!("{n:04}").into_bytes().into(), score(n));
        }
        zset
    }

    #[test]
    fn score_bounds_include_or_exclude_all_members_of_a_score() {
        for size in [10, 300] {
            let zset = zset(size, |n| f64::from(n / 2));
            let ranks = |min: &str, max: &str| {
                ScoreRange::parse(min.as_bytes(), max.as_bytes())
                    .unwrap()
                    .ranks(&zset)
            };
            assert_eq!(ranks("1", "2"), 2..6);
            assert_eq!(ranks("(1", "2"), 4..6);
            assert_eq!(ranks("1", "(2"), 2..4);
            assert_eq!(ranks("(1", "(2"), 4..4);
            assert!(ranks("2", "1").is_empty());
            assert_eq!(ranks("-inf", "+inf"), 0..size as usize);
            assert_eq!(ranks("", " 0"), 0..2);
            assert!(ranks("(inf", "inf").is_empty());
        }
        for wrong in ["nan", "x", " ", "((1", "1 "] {
            assert!(
                ScoreRange::parse(wrong.as_bytes(), b"1").is_err(),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn member_bounds_mean_the_same_from_both_ends_and_in_both_forms() {
        for size in [10, 300] {
            let zset = zset(size, |_| 0.0);
            for (min, max, expected) in [
                ("-", "+", 0..size as usize),
                ("[0002", "[0004", 2..5),
                ("(0002", "[0004", 3..5),
                ("[0002", "(0004", 2..4),
                ("(0002", "(0003", 3..3),
                ("[00025", "(0004", 3..4),
                ("+", "-", 0..0),
                ("-", "-", 0..0),
                ("[0004", "[0002", 0..0),
            ] {
                let members = LexRange::parse(min.as_bytes(), max.as_bytes()).unwrap();
                for reverse in [false, true] {
                    let ranks = members.ranks(&zset, reverse, 0);
                    let same = ranks == expected || ranks.is_empty() && expected.is_empty();
                    assert!(same, "{min} {max} of {size}: {ranks:?}");
                }
            }
        }
        for wrong in ["", "a", "+a", "-a"] {
            assert!(
                LexRange::parse(wrong.as_bytes(), b"+").is_err(),
                "{wrong:?}"
            );
        }
    }
}
