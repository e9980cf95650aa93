//! Types of rate limits.
//!
//! Invariant: a [`RateLimit`] that a script counts is validated, so no number in the script becomes too large to be exact.

use std::time::Duration;

use redis::{FromRedisValue, ParsingError, Value};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::error::{Error, Result};
use crate::clock::duration_millis;

/// Maximum number of requests per window.
pub const MAX_REQUESTS: u32 = 10_000;
/// Maximum cost of one request.
pub const MAX_COST: u32 = 100;
/// Minimum window.
pub const MIN_WINDOW: Duration = Duration::from_millis(1);
/// Maximum window: 31 days.
pub const MAX_WINDOW: Duration = Duration::from_secs(31 * 24 * 60 * 60);

/// How requests are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RateLimitAlgorithm {
    /// Fixed window that starts with the first request.
    Fixed,
    /// Sliding window.
    Sliding,
    /// Steady rate; after a pause up to `limit` requests at once.
    Gcra,
}

impl RateLimitAlgorithm {
    /// All algorithms.
    pub const ALL: &'static [Self] = &[Self::Fixed, Self::Sliding, Self::Gcra];
}

/// A rate limit: algorithm, requests and window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RateLimit {
    algorithm: RateLimitAlgorithm,
    requests: u32,
    window_ms: u64,
}

impl RateLimit {
    /// Creates a limit of 1 to [`MAX_REQUESTS`] requests in a window of [`MIN_WINDOW`] to [`MAX_WINDOW`].
    pub fn new(algorithm: RateLimitAlgorithm, requests: u32, window: Duration) -> Result<Self> {
        if !(1..=MAX_REQUESTS).contains(&requests) {
            let text = format!("`limit` is {requests}, which is not from 1 to {MAX_REQUESTS}");
            return Err(Error::InvalidRequest(text));
        }
        let window_ms = duration_millis(window);
        let longest = duration_millis(MAX_WINDOW);
        if !(duration_millis(MIN_WINDOW)..=longest).contains(&window_ms) {
            let text =
                format!("`windowMs` is {window_ms}, which is not from 1 to {longest} (31 days)");
            return Err(Error::InvalidRequest(text));
        }
        Ok(Self {
            algorithm,
            requests,
            window_ms,
        })
    }

    /// A limit of `per_second` requests on average and `burst` at once, for a node that counts alone. 0 counts as 1.
    pub fn with_burst(per_second: u32, burst: u32) -> Self {
        let requests = burst.max(1);
        let window_ms = u64::from(requests) * 1_000 / u64::from(per_second.max(1));
        Self {
            algorithm: RateLimitAlgorithm::Gcra,
            requests,
            window_ms: window_ms.max(1),
        }
    }

    /// How requests are counted.
    pub const fn algorithm(&self) -> RateLimitAlgorithm {
        self.algorithm
    }

    /// Requests per window.
    pub const fn requests(&self) -> u32 {
        self.requests
    }

    /// Window in milliseconds.
    pub const fn window_ms(&self) -> u64 {
        self.window_ms
    }

    /// Rejects a cost that can never fit.
    pub(super) fn validate_cost(&self, cost: u32) -> Result<()> {
        let most = MAX_COST.min(self.requests);
        if (1..=most).contains(&cost) {
            return Ok(());
        }
        let text = format!(
            "`cost` is {cost}, which is not from 1 to {most}; it is at most {MAX_COST} and at most `limit`"
        );
        Err(Error::InvalidRequest(text))
    }
}

/// Result of a check. An allowed request is included in the numbers, unless the check was a `peek`. A rejected request
/// is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitDecision {
    /// True if the whole cost fits.
    pub allowed: bool,
    /// Requests per window.
    pub limit: u32,
    /// Requests that still fit now.
    pub remaining: u32,
    /// Milliseconds until the limit is completely free again; 0 if it is.
    pub reset_ms: u64,
    /// Milliseconds until the cost fits; absent if it fits now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub retry_after_ms: Option<u64>,
}

/// The reply of every script of this capability.
impl FromRedisValue for RateLimitDecision {
    fn from_redis_value(value: Value) -> std::result::Result<Self, ParsingError> {
        let (allowed, limit, remaining, reset_ms, retry_after): (bool, u32, u32, u64, i64) =
            redis::from_redis_value(value)?;
        Ok(Self {
            allowed,
            limit,
            remaining,
            reset_ms,
            retry_after_ms: u64::try_from(retry_after).ok(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::error_code::ErrorCode;

    #[test]
    fn a_limit_that_cannot_be_kept_is_refused() {
        let second = Duration::from_secs(1);
        for (requests, window) in [
            (0, second),
            (10_001, second),
            (1, Duration::ZERO),
            (1, Duration::from_micros(999)),
            (1, MAX_WINDOW + MIN_WINDOW),
            (1, Duration::MAX),
        ] {
            let refused = RateLimit::new(RateLimitAlgorithm::Gcra, requests, window)
                .expect_err("out of range");
            assert_eq!(refused.code(), ErrorCode::InvalidRequest, "{refused}");
        }
        for (requests, window) in [(1, MIN_WINDOW), (10_000, MAX_WINDOW)] {
            assert!(RateLimit::new(RateLimitAlgorithm::Fixed, requests, window).is_ok());
        }
    }

    #[test]
    fn a_cost_that_never_fits_is_refused() {
        let limit = |requests| {
            RateLimit::new(RateLimitAlgorithm::Fixed, requests, Duration::from_secs(1))
                .expect("in range")
        };
        for (requests, cost, fits) in [
            (10, 0, false),
            (10, 10, true),
            (10, 11, false),
            (1_000, 100, true),
            (1_000, 101, false),
        ] {
            assert_eq!(limit(requests).validate_cost(cost).is_ok(), fits, "{cost}");
        }
    }
}
