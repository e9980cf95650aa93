//! `parlor.v1.LimitService`.

use parlor_chat::code::Code;
use parlor_chat::limits::{self, CheckLimit, Verdict};
use tonic::{Request, Response, Status};

use super::calls::{opened, run};
use super::proto::v1::check_limit_request::Algorithm as Wire;
use super::proto::v1::limit_service_server::LimitService;
use super::proto::v1::{CheckLimitRequest, CheckLimitResponse};
use crate::app::App;
use crate::wire::Refusal;

/// The service over the operation of limits.
pub(super) struct Limits(pub(super) App);

#[tonic::async_trait]
impl LimitService for Limits {
    async fn check(
        &self,
        request: Request<CheckLimitRequest>,
    ) -> Result<Response<CheckLimitResponse>, Status> {
        let (caller, asked) = opened(request);
        let operation = CheckLimit {
            algorithm: algorithm(asked.algorithm)?,
            key: asked.key,
            limit: asked.limit,
            window_ms: asked.window_ms,
            cost: asked.cost.unwrap_or(1),
            peek: asked.peek,
        };
        run(&self.0, &caller, operation).await
    }
}

fn algorithm(wire: i32) -> Result<limits::Algorithm, Refusal> {
    match Wire::try_from(wire) {
        Ok(Wire::Fixed) => Ok(limits::Algorithm::Fixed),
        Ok(Wire::Sliding) => Ok(limits::Algorithm::Sliding),
        Ok(Wire::Gcra) => Ok(limits::Algorithm::Gcra),
        Ok(Wire::Unspecified) | Err(_) => {
            let detail = format!("`algorithm` is {wire}, which is none of FIXED, SLIDING, GCRA");
            Err(Refusal::new(Code::InvalidRequest, detail))
        }
    }
}

impl From<Verdict> for CheckLimitResponse {
    fn from(verdict: Verdict) -> Self {
        Self {
            allowed: verdict.allowed,
            limit: verdict.limit,
            remaining: verdict.remaining,
            reset_ms: verdict.reset_ms,
            retry_after_ms: verdict.retry_after_ms,
        }
    }
}
