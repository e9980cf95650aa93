//! Limits in the memory of one node, for the time in which the store does not answer.
//!
//! Always true:
//! 1. There are never more than [`MOST_REMEMBERED`] entries, and half as many of those that came last are among them.
//! 2. An answer costs a look into two maps, however many entries there are.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::gcra::{self, TheoreticalArrival};
use super::ops::{RateLimit, RateLimitDecision};
use crate::context::Timestamp;
use crate::ids::LimiterId;

/// Most limiters that a node remembers.
pub const MAX_LIMITERS: usize = 100_000;

/// Steady rates of one node, bounded. Every limit counts as a steady rate here, whatever its algorithm.
#[derive(Default)]
pub struct LocalRateLimiter {
    inner: Mutex<LimiterGenerations>,
}

#[derive(Default)]
struct LimiterGenerations {
    current: HashMap<LimiterId, TheoreticalArrival>,
    /// Those that did not come since the young ones began; forgotten together when there are enough young ones.
    previous: HashMap<LimiterId, TheoreticalArrival>,
}

impl LocalRateLimiter {
    /// Remembers nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One request, counted if it is allowed.
    pub fn check(&self, id: &LimiterId, limit: &RateLimit, now: Timestamp) -> RateLimitDecision {
        let mut inner = self.inner.lock();
        let known = inner.find(id);
        let (verdict, kept) = gcra::apply_request(known, limit, now);
        let forgotten = kept.or(known).and_then(|it| inner.store(id, it));
        drop(inner);
        // Fifty thousand entries take a while to drop, in which others can be answered.
        drop(forgotten);
        verdict
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        let inner = self.inner.lock();
        inner.current.len() + inner.previous.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl LimiterGenerations {
    fn find(&mut self, id: &LimiterId) -> Option<TheoreticalArrival> {
        let young = self.current.get(id).copied();
        young.or_else(|| self.previous.remove(id))
    }

    /// Keeps one that is not old; what has to be forgotten for it.
    fn store(
        &mut self,
        id: &LimiterId,
        arrival: TheoreticalArrival,
    ) -> Option<HashMap<LimiterId, TheoreticalArrival>> {
        if let Some(known) = self.current.get_mut(id) {
            *known = arrival;
            return None;
        }
        self.current.insert(id.clone(), arrival);
        if self.current.len() < MAX_LIMITERS / 2 {
            return None;
        }
        let young = std::mem::take(&mut self.current);
        Some(std::mem::replace(&mut self.previous, young))
    }
}

impl std::fmt::Debug for LocalRateLimiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fallback({})", self.len())
    }
}
