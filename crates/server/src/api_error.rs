//! Errors of the gateways: stable code, description, HTTP status and gRPC code.
//!
//! Invariants:
//! 1. An internal error is logged once, here, with a random id. The caller receives the id and not the cause.

use axum::http::StatusCode;
use parlor_chat::api::error::Error;
use parlor_chat::api::error_code::ErrorCode;
use tracing::error;

use crate::auth::AuthError;

/// Error with a stable code, as a gateway sends it to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// Stable error code.
    pub code: ErrorCode,
    /// Description for people; it may change.
    pub detail: String,
    /// Milliseconds after which the same request can succeed, if known.
    pub retry_after_ms: Option<u64>,
}

impl ApiError {
    /// Error without a retry delay.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self {
            code,
            detail,
            retry_after_ms: None,
        }
    }

    /// Error of a request above a rate limit.
    pub fn rate_limited(retry_after_ms: u64) -> Self {
        Error::RateLimited { retry_after_ms }.into()
    }

    /// Error of a request that cannot be decoded.
    pub fn invalid_request(detail: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, detail)
    }

    /// Value of the header `Retry-After`: seconds, rounded up. An unavailable part may return at any time, so it gets
    /// one second.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        match self.retry_after_ms {
            Some(ms) => Some(ms.div_ceil(1_000).max(1)),
            None => (http_status(self.code) == StatusCode::SERVICE_UNAVAILABLE).then_some(1),
        }
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let code = error.code();
        if code != ErrorCode::Internal {
            return Self {
                retry_after_ms: match error {
                    Error::RateLimited { retry_after_ms } => Some(retry_after_ms),
                    _ => None,
                },
                ..Self::new(code, error.to_string())
            };
        }
        let id = format!("{:016x}", rand::random::<u64>());
        let error = anyhow::Error::new(error);
        error!(id, error = format!("{error:#}"), "internal error");
        Self::new(
            code,
            format!("internal error; search the server log for {id}"),
        )
    }
}

/// A request field that cannot be deserialized.
impl From<serde_path_to_error::Error<serde_json::Error>> for ApiError {
    fn from(error: serde_path_to_error::Error<serde_json::Error>) -> Self {
        let path = error.path().to_string();
        Self::invalid_request(match path.as_str() {
            "." => error.inner().to_string(),
            _ => format!("`{path}`: {}", error.inner()),
        })
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// HTTP status of an error code.
pub const fn http_status(code: ErrorCode) -> StatusCode {
    gateway_codes(code).0
}

/// gRPC code of an error code.
pub const fn grpc_code(code: ErrorCode) -> tonic::Code {
    gateway_codes(code).1
}

#[rustfmt::skip]
const fn gateway_codes(code: ErrorCode) -> (StatusCode, tonic::Code) {
    match code {
        ErrorCode::TokenMissing | ErrorCode::TokenInvalid | ErrorCode::TokenExpired | ErrorCode::TokenNotYetValid => (StatusCode::UNAUTHORIZED, tonic::Code::Unauthenticated),
        ErrorCode::SessionExpired => (StatusCode::UNAUTHORIZED, tonic::Code::Unauthenticated),
        ErrorCode::SessionBlocked | ErrorCode::ReadOnlySession => (StatusCode::FORBIDDEN, tonic::Code::PermissionDenied),
        ErrorCode::Forbidden | ErrorCode::NotAMember | ErrorCode::OriginNotAllowed => (StatusCode::FORBIDDEN, tonic::Code::PermissionDenied),
        ErrorCode::EditWindowOver => (StatusCode::FORBIDDEN, tonic::Code::FailedPrecondition),
        ErrorCode::MessageDeleted => (StatusCode::CONFLICT, tonic::Code::FailedPrecondition),
        ErrorCode::ConversationExists => (StatusCode::CONFLICT, tonic::Code::AlreadyExists),
        ErrorCode::UserRequired | ErrorCode::InvalidId | ErrorCode::InvalidRequest | ErrorCode::TooMany => (StatusCode::BAD_REQUEST, tonic::Code::InvalidArgument),
        ErrorCode::BodyTooLarge | ErrorCode::ContentTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, tonic::Code::InvalidArgument),
        ErrorCode::RequestTimeout => (StatusCode::REQUEST_TIMEOUT, tonic::Code::DeadlineExceeded),
        ErrorCode::NotFound => (StatusCode::NOT_FOUND, tonic::Code::NotFound),
        ErrorCode::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, tonic::Code::Unimplemented),
        ErrorCode::KeysUnavailable | ErrorCode::StoreUnavailable | ErrorCode::DatabaseUnavailable | ErrorCode::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, tonic::Code::Unavailable),
        ErrorCode::RateLimited => (StatusCode::TOO_MANY_REQUESTS, tonic::Code::ResourceExhausted),
        ErrorCode::StoreFull | ErrorCode::DatabaseFull => (StatusCode::INSUFFICIENT_STORAGE, tonic::Code::ResourceExhausted),
        ErrorCode::Internal => (StatusCode::INTERNAL_SERVER_ERROR, tonic::Code::Internal),
    }
}
