//! Errors over HTTP: `application/problem+json` (RFC 9457).
//!
//! Always true: `code` is what programs go by and never changes; `detail` is for people.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use parlor_chat::code::Code;
use serde::Serialize;
use utoipa::ToSchema;

use crate::wire::{self, Refusal};

/// The type of the body.
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

/// An error as it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(Refusal);

/// Why a request was refused.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub(super) struct Body<'a> {
    /// Always `about:blank`: the code says all that a type would.
    r#type: &'static str,
    /// The words of the status.
    title: &'a str,
    /// The status.
    status: u16,
    /// What programs go by.
    code: &'static str,
    /// What people read; it may change.
    detail: &'a str,
    /// When the same request would be taken, in milliseconds; only where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

impl Problem {
    /// An error with its stable code and what is wrong.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem(Refusal::new(code, detail))
    }

    /// The status it is answered with.
    pub fn status(&self) -> StatusCode {
        wire::http(self.0.code)
    }

    pub(super) fn body(&self) -> Body<'_> {
        let status = self.status();
        Body {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            code: self.0.code.name(),
            detail: &self.0.detail,
            retry_after_ms: self.0.retry_after_ms,
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Problem(refusal)
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
