//! Rate limiter in the memory of one node, for limits that the store cannot count.
//!
//! Invariants:
//! 1. There are at most [`MAX_LIMITERS`] entries, and the most recent half of that number is among them.
//! 2. A check looks into two maps, however many entries there are.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::gcra::{self, TheoreticalArrival};
use super::model::{RateLimit, RateLimitDecision};
use crate::clock::Timestamp;
use crate::ids::LimiterId;

/// Maximum number of limiters that a node remembers.
pub const MAX_LIMITERS: usize = 100_000;

/// Bounded rate limiter of one node. Every limit is counted with GCRA here, whatever its algorithm.
#[derive(Default)]
pub struct LocalRateLimiter {
    inner: Mutex<LimiterGenerations>,
}

#[derive(Default)]
struct LimiterGenerations {
    current: HashMap<LimiterId, TheoreticalArrival>,
    /// Entries that were not used since `current` was started. They are dropped together when `current` is full.
    previous: HashMap<LimiterId, TheoreticalArrival>,
}

impl LocalRateLimiter {
    /// Creates a rate limiter without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks one request and counts it if it is allowed.
    pub fn check(&self, id: &LimiterId, limit: &RateLimit, now: Timestamp) -> RateLimitDecision {
        self.check_cost(id, limit, 1, now)
    }

    /// Checks a request of this cost and counts all of it if it is allowed.
    pub(super) fn check_cost(
        &self,
        id: &LimiterId,
        limit: &RateLimit,
        cost: u32,
        now: Timestamp,
    ) -> RateLimitDecision {
        let mut inner = self.inner.lock();
        let known = inner.find(id);
        let (decision, new_arrival) = gcra::apply_request(known, limit, cost, now);
        let displaced = new_arrival.or(known).and_then(|it| inner.store(id, it));
        drop(inner);
        // Dropped without the lock, because dropping fifty thousand entries takes a while.
        drop(displaced);
        decision
    }

    /// Decision about a request of this cost, without the request itself. Counts nothing.
    pub(super) fn peek(
        &self,
        id: &LimiterId,
        limit: &RateLimit,
        cost: u32,
        now: Timestamp,
    ) -> RateLimitDecision {
        let known = {
            let inner = self.inner.lock();
            let current = inner.current.get(id);
            current.or_else(|| inner.previous.get(id)).copied()
        };
        // A request without cost changes nothing and shows what is counted.
        let (counted, _) = gcra::apply_request(known, limit, 0, now);
        let (decision, _) = gcra::apply_request(known, limit, cost, now);
        RateLimitDecision {
            allowed: decision.allowed,
            retry_after_ms: decision.retry_after_ms,
            ..counted
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        let inner = self.inner.lock();
        inner.current.len() + inner.previous.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl LimiterGenerations {
    fn find(&mut self, id: &LimiterId) -> Option<TheoreticalArrival> {
        let current = self.current.get(id).copied();
        current.or_else(|| self.previous.remove(id))
    }

    /// Stores an entry in `current`. Returns the map that was displaced, if any.
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
        let full = std::mem::take(&mut self.current);
        Some(std::mem::replace(&mut self.previous, full))
    }
}

impl std::fmt::Debug for LocalRateLimiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LocalRateLimiter({})", self.len())
    }
}
