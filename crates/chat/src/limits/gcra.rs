//! The arithmetic of `gcra.lua`, for a node that has no store to ask.
//!
//! Always true: it answers what the script answers, and keeps what the script keeps.

use super::ops::{Limit, Verdict};
use crate::context::Moment;

/// What the script writes behind the point.
const PARTS: u64 = 100_000;

/// When the next request would come if all came evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    ms: u64,
    /// Of a millisecond that has [`PARTS`].
    part: u64,
}

/// One request, and the arrival to be kept; none if it stays what it was.
pub(super) fn step(
    arrival: Option<Arrival>,
    limit: &Limit,
    now: Moment,
) -> (Verdict, Option<Arrival>) {
    let (requests, window) = (u64::from(limit.requests()), limit.window_ms());
    let most = requests * window;
    let ahead = arrival.map_or(0, |arrival| ahead(arrival, requests, now));
    let (far, mut ahead) = (ahead > most, ahead.min(most));
    let over = (ahead + window).saturating_sub(most);
    let allowed = over == 0;
    if allowed {
        ahead += window;
    }
    let kept = (allowed || far).then(|| Arrival {
        ms: now.ms() + ahead / requests,
        part: rounded(ahead % requests * PARTS, requests),
    });
    let remaining = u32::try_from((most - ahead) / window).expect("at most the limit");
    let verdict = Verdict {
        allowed,
        limit: limit.requests(),
        remaining,
        reset_ms: ahead.div_ceil(requests),
        retry_after_ms: (!allowed).then(|| over.div_ceil(requests)),
    };
    (verdict, kept)
}

/// How far ahead of now, in parts of a millisecond of which it has as many as the limit has requests.
fn ahead(arrival: Arrival, requests: u64, now: Moment) -> u64 {
    let part = rounded(arrival.part * requests, PARTS);
    match arrival.ms.checked_sub(now.ms()) {
        Some(ms) => ms.saturating_mul(requests).saturating_add(part),
        None => part.saturating_sub((now.ms() - arrival.ms).saturating_mul(requests)),
    }
}

/// A quotient to the next whole number, a half up.
const fn rounded(number: u64, by: u64) -> u64 {
    (2 * number + by) / (2 * by)
}
