//! The arithmetic of `gcra.lua`, for a node that has no store to ask.
//!
//! Always true: it answers what the script answers, and keeps what the script keeps.

use super::ops::{RateLimit, RateLimitDecision};
use crate::context::Timestamp;

/// What the script writes behind the point.
const FRACTIONS_PER_MS: u64 = 100_000;

/// When the next request would come if all came evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TheoreticalArrival {
    ms: u64,
    /// Of a millisecond that has [`PARTS`].
    part: u64,
}

/// One request, and the arrival to be kept; none if it stays what it was.
pub(super) fn apply_request(
    arrival: Option<TheoreticalArrival>,
    limit: &RateLimit,
    now: Timestamp,
) -> (RateLimitDecision, Option<TheoreticalArrival>) {
    let (requests, window) = (u64::from(limit.requests()), limit.window_ms());
    let most = requests * window;
    let ahead = arrival.map_or(0, |arrival| distance_from_now(arrival, requests, now));
    let (far, mut ahead) = (ahead > most, ahead.min(most));
    let over = (ahead + window).saturating_sub(most);
    let allowed = over == 0;
    if allowed {
        ahead += window;
    }
    let kept = (allowed || far).then(|| TheoreticalArrival {
        ms: now.as_millis() + ahead / requests,
        part: div_round(ahead % requests * FRACTIONS_PER_MS, requests),
    });
    let remaining = u32::try_from((most - ahead) / window).expect("at most the limit");
    let verdict = RateLimitDecision {
        allowed,
        limit: limit.requests(),
        remaining,
        reset_ms: ahead.div_ceil(requests),
        retry_after_ms: (!allowed).then(|| over.div_ceil(requests)),
    };
    (verdict, kept)
}

/// How far ahead of now, in parts of a millisecond of which it has as many as the limit has requests.
fn distance_from_now(arrival: TheoreticalArrival, requests: u64, now: Timestamp) -> u64 {
    let part = div_round(arrival.part * requests, FRACTIONS_PER_MS);
    match arrival.ms.checked_sub(now.as_millis()) {
        Some(ms) => ms.saturating_mul(requests).saturating_add(part),
        None => part.saturating_sub((now.as_millis() - arrival.ms).saturating_mul(requests)),
    }
}

/// A quotient to the next whole number, a half up.
const fn div_round(number: u64, by: u64) -> u64 {
    (2 * number + by) / (2 * by)
}
