//! The `RateLimit-*` headers of every response whose request was counted.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use parlor_chat::limits::RateLimitDecision;

/// Requests per window.
pub(super) const RATELIMIT_LIMIT: &str = "ratelimit-limit";
/// Requests that are still allowed now.
pub(super) const RATELIMIT_REMAINING: &str = "ratelimit-remaining";
/// Seconds until the limit is completely free again.
pub(super) const RATELIMIT_RESET: &str = "ratelimit-reset";

/// Adds the headers.
pub(super) fn add_rate_limit_headers(decision: &RateLimitDecision, headers: &mut HeaderMap) {
    let seconds = decision.reset_ms.div_ceil(1_000);
    let mut put = |name, value| headers.insert(HeaderName::from_static(name), value);
    put(RATELIMIT_LIMIT, HeaderValue::from(decision.limit));
    put(RATELIMIT_REMAINING, HeaderValue::from(decision.remaining));
    put(RATELIMIT_RESET, HeaderValue::from(seconds));
}
