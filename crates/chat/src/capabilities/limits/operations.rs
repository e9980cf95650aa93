//! Operations of rate limits.

use std::time::Duration;

use serde::Deserialize;
use utoipa::ToSchema;

use super::model::{RateLimit, RateLimitAlgorithm, RateLimitDecision};
use crate::api::caller::Caller;
use crate::api::error::Result;
use crate::api::error_code::ErrorCode;
use crate::api::operation::{Operation, OperationInfo};
use crate::chat::Chat;
use crate::ids::LimiterId;

/// Checks a rate limit and counts the request if it is allowed. For services and admins.
///
/// Use a key with one limit and window only; each algorithm has its own keys. Keys that begin with `http:` belong to
/// the rate limits of Parlor's own API: use `peek` with them, so that nothing is counted.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckLimit {
    /// Name of the limit, for example `login:alice` or `export:203.0.113.7`. A key that is an IPv6 address counts as
    /// its /64 network.
    #[schema(value_type = LimiterId)]
    pub key: String,
    /// How requests are counted.
    pub algorithm: RateLimitAlgorithm,
    /// Requests per window, 1 to 10,000.
    #[schema(minimum = 1, maximum = 10_000, examples(5))]
    pub limit: u32,
    /// Window in milliseconds, at most 31 days.
    #[schema(minimum = 1, maximum = 2_678_400_000_u64, examples(60_000))]
    pub window_ms: u64,
    /// As how many requests this one counts, default 1; all of it is counted or nothing.
    /// At most 100 and at most `limit`.
    #[serde(default = "default_cost")]
    #[schema(minimum = 1, maximum = 100, default = 1)]
    pub cost: u32,
    /// If true, nothing is counted. Default: false.
    #[serde(default)]
    #[schema(default = false)]
    pub peek: bool,
}

impl Operation for CheckLimit {
    const INFO: OperationInfo = OperationInfo {
        name: "limits.check",
        summary: "Checks a rate limit and counts the request",
        codes: &[ErrorCode::InvalidId, ErrorCode::Forbidden],
    };
    type Reply = RateLimitDecision;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<RateLimitDecision> {
        caller.require_admin_or_service("check rate limits")?;
        let id = LimiterId::new(&self.key)?;
        let window = Duration::from_millis(self.window_ms);
        let limit = RateLimit::new(self.algorithm, self.limit, window)?;
        chat.limits().check(&id, &limit, self.cost, self.peek).await
    }
}

fn default_cost() -> u32 {
    1
}
