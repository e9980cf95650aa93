//! `parlor.v1.LimitService`.

use parlor_chat::api::error_code::Code;
use parlor_chat::limits::{self, CheckLimit, RateLimitDecision};
use tonic::{Request, Response, Status};

use super::proto::v1::check_limit_request::Algorithm as Wire;
use super::proto::v1::limit_service_server::LimitService;
use super::proto::v1::{CheckLimitRequest, CheckLimitResponse};
use super::request::{caller_and_message, run_operation};
use crate::api_error::ApiError;
use crate::app_state::AppState;

/// Service for the operation of limits.
pub(super) struct GrpcLimitService(pub(super) AppState);

#[tonic::async_trait]
impl LimitService for GrpcLimitService {
    async fn check(
        &self,
        request: Request<CheckLimitRequest>,
    ) -> Result<Response<CheckLimitResponse>, Status> {
        let (caller, asked) = caller_and_message(request);
        let operation = CheckLimit {
            algorithm: algorithm(asked.algorithm)?,
            key: asked.key,
            limit: asked.limit,
            window_ms: asked.window_ms,
            cost: asked.cost.unwrap_or(1),
            peek: asked.peek,
        };
        run_operation(&self.0, &caller, operation).await
    }
}

fn algorithm(wire: i32) -> Result<limits::RateLimitAlgorithm, ApiError> {
    match Wire::try_from(wire) {
        Ok(Wire::Fixed) => Ok(limits::RateLimitAlgorithm::Fixed),
        Ok(Wire::Sliding) => Ok(limits::RateLimitAlgorithm::Sliding),
        Ok(Wire::Gcra) => Ok(limits::RateLimitAlgorithm::Gcra),
        Ok(Wire::Unspecified) | Err(_) => {
            let detail = format!("`algorithm` is {wire}; it must be FIXED, SLIDING or GCRA");
            Err(ApiError::new(Code::InvalidRequest, detail))
        }
    }
}

impl From<RateLimitDecision> for CheckLimitResponse {
    fn from(verdict: RateLimitDecision) -> Self {
        Self {
            allowed: verdict.allowed,
            limit: verdict.limit,
            remaining: verdict.remaining,
            reset_ms: verdict.reset_ms,
            retry_after_ms: verdict.retry_after_ms,
        }
    }
}
