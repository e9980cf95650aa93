//! Sorted sets: members ordered by score, then by bytes. The rank of a member, the member at a rank and the start of a
//! range are found in O(log n).

use std::cmp::Ordering;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use indexset::BTreeSet;

use super::SharedBytes;

/// Up to this size a sorted vector is smaller and faster than a tree and a hash table.
const FEW: usize = 64;

/// A score: any float except NaN. `-0` equals `0`.
#[derive(Debug, Clone, Copy)]
pub struct Score(pub f64);

impl Score {
    /// The score with `-0` turned into `0`, as it is stored.
    fn normalized(score: f64) -> Self {
        Self(score + 0.0)
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal)
    }
}

/// Members with scores.
#[derive(Debug, Clone)]
pub struct ZSet(Repr);

#[derive(Debug, Clone)]
enum Repr {
    Few(Vec<(Score, SharedBytes)>),
    Many(Box<LargeZset>),
}

#[derive(Debug, Clone, Default)]
struct LargeZset {
    by_score: BTreeSet<(Score, SharedBytes)>,
    scores: IndexMap<SharedBytes, f64, RandomState>,
}

impl Default for ZSet {
    fn default() -> Self {
        Self(Repr::Few(Vec::new()))
    }
}

impl ZSet {
    /// Number of members.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Few(items) => items.len(),
            Repr::Many(many) => many.scores.len(),
        }
    }

    /// Whether the sorted set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Score of a member.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.0 {
            Repr::Few(items) => items.iter().find(|(_, m)| **m == *member).map(|(s, _)| s.0),
            Repr::Many(many) => many.scores.get(member).copied(),
        }
    }

    /// Sets the score of a member and returns the score it had before. `-0` is stored as `0`, as in Redis's small
    /// sorted sets.
    pub fn insert(&mut self, member: SharedBytes, score: f64) -> Option<f64> {
        let old = self.score(&member);
        match old {
            Some(old) => drop(self.change(&member, old, score)),
            None => self.insert_new(member, score),
        }
        old
    }

    /// Inserts a member that is known to be absent.
    pub fn insert_new(&mut self, member: SharedBytes, score: f64) {
        let item = (Score::normalized(score), member);
        match &mut self.0 {
            Repr::Few(items) => {
                let place = items.partition_point(|other| *other < item);
                items.insert(place, item);
                if items.len() > FEW {
                    let mut many = LargeZset::default();
                    for (score, member) in items.drain(..) {
                        many.scores.insert(member.clone(), score.0);
                        many.by_score.insert((score, member));
                    }
                    self.0 = Repr::Many(Box::new(many));
                }
            }
            Repr::Many(many) => {
                many.scores.insert(item.1.clone(), item.0.0);
                many.by_score.insert(item);
            }
        }
    }

    /// Changes the score of a member from `old` to `new`. Returns the member as it is stored.
    pub fn change(&mut self, member: &[u8], old: f64, new: f64) -> Option<SharedBytes> {
        let (old, new) = (Score(old), Score::normalized(new));
        match &mut self.0 {
            Repr::Few(items) => {
                let from = items
                    .binary_search_by(|(s, m)| (*s, &**m).cmp(&(old, member)))
                    .ok()?;
                let to = items.partition_point(|(s, m)| (*s, &**m) < (new, member));
                items[from].0 = new;
                // Only the members between the two positions move, by one position each.
                if from < to {
                    items[from..to].rotate_left(1);
                    return Some(items[to - 1].1.clone());
                }
                items[to..=from].rotate_right(1);
                Some(items[to].1.clone())
            }
            Repr::Many(many) => {
                let (_, stored, score) = many.scores.get_full_mut(member)?;
                *score = new.0;
                many.by_score.remove(&(old, stored.clone()));
                many.by_score.insert((new, stored.clone()));
                Some(stored.clone())
            }
        }
    }

    /// Removes a member and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.0 {
            Repr::Few(items) => {
                let place = items.iter().position(|(_, m)| **m == *member)?;
                Some(items.remove(place).0.0)
            }
            Repr::Many(many) => {
                let (member, score) = many.scores.swap_remove_entry(member)?;
                many.by_score.remove(&(Score(score), member));
                Some(score)
            }
        }
    }

    /// Number of members before `(score, member)`, which need not be in the set.
    pub fn count_before(&self, score: f64, member: &[u8]) -> usize {
        match &self.0 {
            Repr::Few(items) => items.partition_point(|(s, m)| (*s, &**m) < (Score(score), member)),
            Repr::Many(many) => many
                .by_score
                .rank(&(Score(score), SharedBytes::from(member))),
        }
    }

    /// Rank of a member, lowest score first.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        self.score(member)
            .map(|score| self.count_before(score, member))
    }

    /// Member at a rank.
    pub fn at(&self, rank: usize) -> Option<(&SharedBytes, f64)> {
        match &self.0 {
            Repr::Few(items) => items.get(rank).map(|(s, m)| (m, s.0)),
            Repr::Many(many) => many.by_score.get_index(rank).map(|(s, m)| (m, s.0)),
        }
    }

    /// Members by rank, from `from` (included) to `to` (excluded).
    pub fn range(
        &self,
        from: usize,
        to: usize,
    ) -> impl DoubleEndedIterator<Item = (&SharedBytes, f64)> {
        (from..to.min(self.len())).filter_map(|rank| self.at(rank))
    }

    /// All members by rank.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&SharedBytes, f64)> {
        self.range(0, self.len())
    }

    /// One step of a scan, as in [`super::CompactMap::scan`].
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&SharedBytes, f64)) -> u64 {
        let Repr::Many(many) = &self.0 else {
            self.iter().for_each(|(member, score)| visit(member, score));
            return 0;
        };
        let len = many.scores.len();
        let top = match cursor {
            0 => len,
            cursor => usize::try_from(cursor).map_or(len, |c| c.min(len)),
        };
        let bottom = top.saturating_sub(count.max(1));
        for position in (bottom..top).rev() {
            if let Some((member, score)) = many.scores.get_index(position) {
                visit(member, *score);
            }
        }
        bottom as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_scan_meets_every_member_that_stays_while_others_go() {
        let member = |n: u32| SharedBytes::from(n.to_string().into_bytes());
        let mut zset = ZSet::default();
        for n in 0..500 {
            zset.insert(member(n), f64::from(n));
        }
        let (mut seen, mut cursor) = (HashSet::new(), 0);
        loop {
            let mut step = Vec::new();
            cursor = zset.scan(cursor, 7, |member, _| step.push(member.clone()));
            for met in step.iter().filter(|member| member.ends_with(b"0")) {
                zset.remove(met);
            }
            seen.extend(step);
            if cursor == 0 {
                break;
            }
        }
        for n in (0..500).filter(|n| n % 10 != 0) {
            assert!(seen.contains(&member(n)), "{n} was missed");
        }
    }

    #[test]
    fn order_rank_and_select_agree_in_both_forms() {
        for size in [10u32, 63, 64, 65, 1_000] {
            let mut zset = ZSet::default();
            for n in 0..size {
                let member: SharedBytes = n.to_string().into_bytes().into();
                zset.insert(member, f64::from((n * 7_919) % 101));
            }
            for n in (0..size).step_by(3) {
                let member: SharedBytes = n.to_string().into_bytes().into();
                zset.insert(member, f64::from(n % 13));
            }
            for n in (0..size).step_by(5) {
                assert!(zset.remove(n.to_string().as_bytes()).is_some());
            }
            let items: Vec<_> = zset.iter().map(|(m, s)| (Score(s), m.clone())).collect();
            assert!(items.is_sorted());
            assert_eq!(items.len(), zset.len());
            for (rank, (score, member)) in items.iter().enumerate() {
                assert_eq!(zset.rank(member), Some(rank));
                assert_eq!(zset.score(member), Some(score.0));
            }
            for bound in -1..103 {
                let below = items.iter().filter(|(s, _)| s.0 < f64::from(bound)).count();
                assert_eq!(
                    zset.count_before(f64::from(bound), b""),
                    below,
                    "{bound} of {size}"
                );
            }
        }
    }
}
