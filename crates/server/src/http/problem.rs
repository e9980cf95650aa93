//! Errors over HTTP: `application/problem+json` (RFC 9457).
//!
//! Always true: `code` is what programs go by and never changes; `detail` is for people.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// An error as it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: &'static str,
    title: &'a str,
    status: u16,
    code: &'static str,
    detail: &'a str,
}

impl Problem {
    /// An error with its stable code and what is wrong.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Problem {
        let detail = detail.into();
        Problem {
            status,
            code,
            detail,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = Json(Body {
            // The code says all that a type would; `about:blank` is the standard's word for that.
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or_default(),
            status: self.status.as_u16(),
            code: self.code,
            detail: &self.detail,
        });
        let mut response = (self.status, body).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}
