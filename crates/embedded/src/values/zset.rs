//! Sorted sets: members ordered by score, then by bytes. The rank of a member, the member at a rank and the start of a
//! range are found in O(log n).

use std::cmp::Ordering;

use indexset::BTreeSet;

use super::{CompactMap, SharedBytes};

/// Up to this size a sorted vector is smaller and faster than a tree and a hash table.
const MAX_SMALL_LEN: usize = 64;

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
    Small(Vec<(Score, SharedBytes)>),
    Large(Box<LargeZset>),
}

#[derive(Debug, Clone, Default)]
struct LargeZset {
    by_score: BTreeSet<(Score, SharedBytes)>,
    scores: CompactMap<f64>,
}

impl Default for ZSet {
    fn default() -> Self {
        Self(Repr::Small(Vec::new()))
    }
}

impl ZSet {
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Small(items) => items.len(),
            Repr::Large(large) => large.scores.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.0 {
            Repr::Small(items) => items.iter().find(|(_, m)| **m == *member).map(|(s, _)| s.0),
            Repr::Large(large) => large.scores.get(member).copied(),
        }
    }

    /// Sets the score of a member and returns the score it had before. `-0` is stored as `0`, as in Redis's small
    /// sorted sets.
    pub fn insert(&mut self, member: SharedBytes, score: f64) -> Option<f64> {
        let old = self.score(&member);
        match old {
            Some(old) => drop(self.update_score(&member, old, score)),
            None => self.insert_new(member, score),
        }
        old
    }

    /// Inserts a member that is known to be absent.
    pub fn insert_new(&mut self, member: SharedBytes, score: f64) {
        let item = (Score::normalized(score), member);
        match &mut self.0 {
            Repr::Small(items) => {
                let place = items.partition_point(|other| *other < item);
                items.insert(place, item);
                if items.len() > MAX_SMALL_LEN {
                    let mut large = LargeZset::default();
                    for (score, member) in items.drain(..) {
                        large.scores.insert(member.clone(), score.0);
                        large.by_score.insert((score, member));
                    }
                    self.0 = Repr::Large(Box::new(large));
                }
            }
            Repr::Large(large) => {
                large.scores.insert(item.1.clone(), item.0.0);
                large.by_score.insert(item);
            }
        }
    }

    /// Changes the score of a member from `old` to `new`. Returns the member as it is stored.
    pub fn update_score(&mut self, member: &[u8], old: f64, new: f64) -> Option<SharedBytes> {
        let (old, new) = (Score(old), Score::normalized(new));
        match &mut self.0 {
            Repr::Small(items) => {
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
            Repr::Large(large) => {
                let (stored, score) = large.scores.get_mut(member)?;
                *score = new.0;
                large.by_score.remove(&(old, stored.clone()));
                large.by_score.insert((new, stored.clone()));
                Some(stored.clone())
            }
        }
    }

    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.0 {
            Repr::Small(items) => {
                let place = items.iter().position(|(_, m)| **m == *member)?;
                Some(items.remove(place).0.0)
            }
            Repr::Large(large) => {
                let (member, score) = large.scores.remove(member)?;
                large.by_score.remove(&(Score(score), member));
                Some(score)
            }
        }
    }

    /// Number of members before `(score, member)`, which need not be in the set.
    pub fn count_before(&self, score: f64, member: &[u8]) -> usize {
        match &self.0 {
            Repr::Small(items) => {
                items.partition_point(|(s, m)| (*s, &**m) < (Score(score), member))
            }
            Repr::Large(large) => large
                .by_score
                .rank(&(Score(score), SharedBytes::from(member))),
        }
    }

    /// Rank of a member, lowest score first.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        self.score(member)
            .map(|score| self.count_before(score, member))
    }

    pub fn get_rank(&self, rank: usize) -> Option<(&SharedBytes, f64)> {
        match &self.0 {
            Repr::Small(items) => items.get(rank).map(|(s, m)| (m, s.0)),
            Repr::Large(large) => large.by_score.get_index(rank).map(|(s, m)| (m, s.0)),
        }
    }

    /// Members by rank, from `from` (included) to `to` (excluded).
    pub fn range(
        &self,
        from: usize,
        to: usize,
    ) -> impl DoubleEndedIterator<Item = (&SharedBytes, f64)> {
        (from..to.min(self.len())).filter_map(|rank| self.get_rank(rank))
    }

    /// All members by rank.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&SharedBytes, f64)> {
        self.range(0, self.len())
    }

    /// One step of a scan, as in [`super::CompactMap::scan`].
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&SharedBytes, f64)) -> u64 {
        match &self.0 {
            Repr::Small(items) => {
                items
                    .iter()
                    .for_each(|(score, member)| visit(member, score.0));
                0
            }
            Repr::Large(large) => large
                .scores
                .scan(cursor, count, |member, score| visit(member, *score)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_scan_returns_every_member_that_exists_throughout() {
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
