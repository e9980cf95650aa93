//! `parlor.v1.LimitService`.

use parlor_chat::limits::{CheckLimit, RateLimitAlgorithm, RateLimitDecision};
use tonic::{Request, Response, Status};

use super::GrpcService;
use super::proto::v1::check_limit_request::Algorithm as ProtoAlgorithm;
use super::proto::v1::limit_service_server::LimitService;
use super::proto::v1::{CheckLimitRequest, CheckLimitResponse};
use super::request::{caller_and_message, run_operation};
use crate::api_error::ApiError;

#[tonic::async_trait]
impl LimitService for GrpcService {
    async fn check(
        &self,
        request: Request<CheckLimitRequest>,
    ) -> Result<Response<CheckLimitResponse>, Status> {
        let (caller, message) = caller_and_message(request);
        let operation = CheckLimit {
            algorithm: parse_algorithm(message.algorithm)?,
            key: message.key,
            limit: message.limit,
            window_ms: message.window_ms,
            cost: message.cost.unwrap_or(1),
            peek: message.peek,
        };
        run_operation(&self.0, &caller, operation).await
    }
}

fn parse_algorithm(algorithm: i32) -> Result<RateLimitAlgorithm, ApiError> {
    match ProtoAlgorithm::try_from(algorithm) {
        Ok(ProtoAlgorithm::Fixed) => Ok(RateLimitAlgorithm::Fixed),
        Ok(ProtoAlgorithm::Sliding) => Ok(RateLimitAlgorithm::Sliding),
        Ok(ProtoAlgorithm::Gcra) => Ok(RateLimitAlgorithm::Gcra),
        Ok(ProtoAlgorithm::Unspecified) | Err(_) => {
            let detail = format!("`algorithm` is {algorithm}; it must be FIXED, SLIDING or GCRA");
            Err(ApiError::invalid_request(detail))
        }
    }
}

impl From<RateLimitDecision> for CheckLimitResponse {
    fn from(decision: RateLimitDecision) -> Self {
        Self {
            allowed: decision.allowed,
            limit: decision.limit,
            remaining: decision.remaining,
            reset_ms: decision.reset_ms,
            retry_after_ms: decision.retry_after_ms,
        }
    }
}
