//! Limits in the memory of one node, for the time in which the store does not answer.
//!
//! Always true:
//! 1. There are never more than [`MOST_REMEMBERED`] entries, and half as many of those that came last are among them.
//! 2. An answer costs a look into two maps, however many entries there are.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::gcra::{self, Arrival};
use super::ops::{Limit, Verdict};
use crate::context::Moment;
use crate::ids::LimiterId;

/// Most limiters that a node remembers.
pub const MOST_REMEMBERED: usize = 100_000;

/// Steady rates of one node, bounded. Every limit counts as a steady rate here, whatever its algorithm.
#[derive(Default)]
pub struct Fallback {
    inner: Mutex<Generations>,
}

#[derive(Default)]
struct Generations {
    young: HashMap<LimiterId, Arrival>,
    /// Those that did not come since the young ones began; forgotten together when there are enough young ones.
    old: HashMap<LimiterId, Arrival>,
}

impl Fallback {
    /// Remembers nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One request, counted if it is allowed.
    pub fn check(&self, id: &LimiterId, limit: &Limit, now: Moment) -> Verdict {
        let mut inner = self.inner.lock();
        let known = inner.recall(id);
        let (verdict, kept) = gcra::step(known, limit, now);
        let forgotten = kept.or(known).and_then(|it| inner.remember(id, it));
        drop(inner);
        // Fifty thousand entries take a while to drop, in which others can be answered.
        drop(forgotten);
        verdict
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        let inner = self.inner.lock();
        inner.young.len() + inner.old.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Generations {
    fn recall(&mut self, id: &LimiterId) -> Option<Arrival> {
        let young = self.young.get(id).copied();
        young.or_else(|| self.old.remove(id))
    }

    /// Keeps one that is not old; what has to be forgotten for it.
    fn remember(
        &mut self,
        id: &LimiterId,
        arrival: Arrival,
    ) -> Option<HashMap<LimiterId, Arrival>> {
        if let Some(known) = self.young.get_mut(id) {
            *known = arrival;
            return None;
        }
        self.young.insert(id.clone(), arrival);
        if self.young.len() < MOST_REMEMBERED / 2 {
            return None;
        }
        let young = std::mem::take(&mut self.young);
        Some(std::mem::replace(&mut self.old, young))
    }
}

impl std::fmt::Debug for Fallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fallback({})", self.len())
    }
}
