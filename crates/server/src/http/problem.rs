//! Error responses: `application/problem+json` (RFC 9457).
//!
//! Invariants:
//! 1. `code` is stable; `detail` is for people and may change.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use parlor_chat::api::error_code::Code;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api_error::{self, ApiError};

/// Media type of the body.
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

/// Error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(ApiError);

/// Error of a request (RFC 9457).
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub struct ProblemBody<'a> {
    /// Always `about:blank`; use `code` instead.
    r#type: &'static str,
    /// Reason phrase of the HTTP status.
    title: &'a str,
    /// HTTP status.
    status: u16,
    /// Stable error code.
    code: &'static str,
    /// Description for people; it may change.
    detail: &'a str,
    /// Milliseconds after which the same request can succeed; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

impl Problem {
    /// Creates an error from its stable code and a description.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem(ApiError::new(code, detail))
    }

    /// HTTP status of the response.
    pub fn status(&self) -> StatusCode {
        api_error::http_status(self.0.code)
    }

    /// Body of the response.
    pub fn body(&self) -> ProblemBody<'_> {
        let status = self.status();
        ProblemBody {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            code: self.0.code.name(),
            detail: &self.0.detail,
            retry_after_ms: self.0.retry_after_ms,
        }
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        Problem(error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let mut response = (status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(PROBLEM_MEDIA_TYPE),
        );
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.0.retry_after_seconds() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
