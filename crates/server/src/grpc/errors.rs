//! Errors over gRPC.
//!
//! Invariants:
//! 1. Every error has its [`ErrorCode`] as `reason` in the status details and in the trailer [`ERROR_CODE_TRAILER`].

use std::collections::HashMap;
use std::time::Duration;

use parlor_chat::api::error_code::ErrorCode;
use tonic::Status;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic_types::{ErrorDetails, StatusExt};

use crate::api_error::{self, ApiError};

/// Trailer with the error code.
pub const ERROR_CODE_TRAILER: &str = "parlor-code";
/// Domain of the error codes in the status details.
pub const ERROR_DOMAIN: &str = "parlor";
/// Retry delay of a retryable error without a known delay.
const DEFAULT_RETRY_DELAY: Duration = Duration::from_secs(1);

impl From<ApiError> for Status {
    fn from(error: ApiError) -> Self {
        let ApiError {
            code,
            detail,
            retry_after_ms,
        } = error;
        let mut details = ErrorDetails::with_error_info(code.name(), ERROR_DOMAIN, HashMap::new());
        if code.is_retryable() {
            let known = retry_after_ms.map(Duration::from_millis);
            details.set_retry_info(Some(known.unwrap_or(DEFAULT_RETRY_DELAY)));
        }
        let mut trailers = MetadataMap::new();
        trailers.insert(ERROR_CODE_TRAILER, MetadataValue::from_static(code.name()));
        Self::with_error_details_and_metadata(api_error::grpc_code(code), detail, details, trailers)
    }
}

/// Adds an error code to an error that tonic returned before a method ran: a message that is too large or cannot be
/// decoded, or an unknown method.
pub(super) fn with_error_code(status: &Status) -> Option<Status> {
    let code = match status.code() {
        tonic::Code::OutOfRange => ErrorCode::BodyTooLarge,
        tonic::Code::Unimplemented => ErrorCode::MethodNotAllowed,
        tonic::Code::Internal => ErrorCode::InvalidRequest,
        _ => return None,
    };
    let detail = match status.message() {
        "" => code.description(),
        message => message,
    };
    Some(ApiError::new(code, detail).into())
}
