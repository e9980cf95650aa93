//! Error responses: `application/problem+json` (RFC 9457).
//!
//! Invariants:
//! 1. `code` is stable; `detail` is for people and may change.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api_error::{ApiError, http_status};

/// Media type of the body.
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

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

impl ApiError {
    /// Body of the HTTP response.
    pub fn problem(&self) -> ProblemBody<'_> {
        let status = http_status(self.code);
        ProblemBody {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            code: self.code.name(),
            detail: &self.detail,
            retry_after_ms: self.retry_after_ms,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = http_status(self.code);
        let mut response = (status, Json(self.problem())).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(PROBLEM_MEDIA_TYPE),
        );
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after_seconds() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
