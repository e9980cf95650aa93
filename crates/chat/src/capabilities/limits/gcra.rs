//! The arithmetic of `check_gcra.lua`, for limits that a node counts alone: those of requests while the store cannot
//! count, and those of the Socket.IO gateway.
//!
//! Invariant: it returns and stores the same numbers as the script.

use super::model::{RateLimit, RateLimitDecision};
use crate::clock::Timestamp;

/// Fractions of a millisecond in a stored arrival time: the script writes five decimals.
const FRACTIONS_PER_MS: u64 = 100_000;

/// Bits of a packed arrival time that hold the fractions of a millisecond.
const PART_BITS: u32 = 17;

/// Theoretical arrival time of GCRA: the time of the next request if all requests arrived evenly. The default value is
/// in the past.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TheoreticalArrival {
    ms: u64,
    /// Fractions of a millisecond, of which [`FRACTIONS_PER_MS`] make one.
    part: u64,
}

impl TheoreticalArrival {
    /// The arrival time as one number. It is exact for 4,000 years after the zero of the clock.
    pub const fn to_bits(self) -> u64 {
        self.ms << PART_BITS | self.part
    }

    /// The arrival time of a number that [`to_bits`](Self::to_bits) has returned.
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            ms: bits >> PART_BITS,
            part: bits & ((1 << PART_BITS) - 1),
        }
    }
}

/// Applies a request of this cost. Returns the decision and the arrival time to store; `None` if it is unchanged.
pub fn apply_request(
    arrival: Option<TheoreticalArrival>,
    limit: &RateLimit,
    cost: u32,
    now: Timestamp,
) -> (RateLimitDecision, Option<TheoreticalArrival>) {
    let (requests, window) = (u64::from(limit.requests()), limit.window_ms());
    let capacity = requests * window;
    let distance = arrival.map_or(0, |arrival| distance_from_now(arrival, requests, now));
    let is_implausible = distance > capacity;
    let mut used = distance.min(capacity);
    let cost = u64::from(cost) * window;
    let excess = (used + cost).saturating_sub(capacity);
    let allowed = excess == 0;
    if allowed {
        used += cost;
    }
    let new_arrival = (allowed || is_implausible).then(|| TheoreticalArrival {
        ms: now.as_millis() + used / requests,
        part: div_round(used % requests * FRACTIONS_PER_MS, requests),
    });
    let remaining = u32::try_from((capacity - used) / window).expect("at most the limit");
    let decision = RateLimitDecision {
        allowed,
        limit: limit.requests(),
        remaining,
        reset_ms: used.div_ceil(requests),
        retry_after_ms: (!allowed).then(|| excess.div_ceil(requests)),
    };
    (decision, new_arrival)
}

/// Distance of the arrival time from now, in units of 1/`requests` of a millisecond.
fn distance_from_now(arrival: TheoreticalArrival, requests: u64, now: Timestamp) -> u64 {
    let part = div_round(arrival.part * requests, FRACTIONS_PER_MS);
    match arrival.ms.checked_sub(now.as_millis()) {
        Some(ms) => ms.saturating_mul(requests).saturating_add(part),
        None => part.saturating_sub((now.as_millis() - arrival.ms).saturating_mul(requests)),
    }
}

/// Divides and rounds to the nearest whole number, a half up.
const fn div_round(number: u64, by: u64) -> u64 {
    (2 * number + by) / (2 * by)
}
