//! What is left of a caller's budget, as headers of every answer that was counted.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use parlor_chat::limits::Verdict;

/// Requests per window.
pub(super) const LIMIT: &str = "ratelimit-limit";
/// Requests that would still be taken.
pub(super) const REMAINING: &str = "ratelimit-remaining";
/// Seconds until everything is free again.
pub(super) const RESET: &str = "ratelimit-reset";

/// Adds the headers.
pub(super) fn tell(verdict: &Verdict, headers: &mut HeaderMap) {
    let seconds = verdict.reset_ms.div_ceil(1_000);
    let mut put = |name, value| headers.insert(HeaderName::from_static(name), value);
    put(LIMIT, HeaderValue::from(verdict.limit));
    put(REMAINING, HeaderValue::from(verdict.remaining));
    put(RESET, HeaderValue::from(seconds));
}
