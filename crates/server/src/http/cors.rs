//! CORS: which browser pages may send requests; and the header `X-Content-Type-Options`.
//!
//! Invariants:
//! 1. A request with an `Origin` comes from a page. It is served if the origin is the server's own or is listed. A
//!    request without an `Origin` does not come from a page and is served.
//! 2. The origin is checked with every request, so a page of another origin cannot bypass the check by omitting the
//!    preflight.

use std::sync::Arc;

use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Method, Request};
use axum::response::{IntoResponse, Response};
use parlor_chat::api::error_code::ErrorCode;

use crate::api_error::ApiError;

const ALLOWED_METHODS: HeaderValue =
    HeaderValue::from_static("GET, HEAD, PUT, POST, PATCH, DELETE");
const ALLOWED_HEADERS: HeaderValue =
    HeaderValue::from_static("Authorization, Content-Type, Idempotency-Key, Parlor-User");
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static(
    "Allow, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, WWW-Authenticate",
);
/// In seconds. Browsers cache a preflight for at most two hours.
const PREFLIGHT_MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

/// Allowed origins besides the server's own.
#[derive(Clone, Debug)]
pub(super) struct CorsPolicy {
    all: bool,
    listed: Arc<[String]>,
}

impl CorsPolicy {
    pub(super) fn new(origins: &[String]) -> Self {
        Self {
            all: origins.iter().any(|origin| origin == "*"),
            listed: origins.into(),
        }
    }

    fn allows(&self, origin: &HeaderValue, headers: &HeaderMap) -> bool {
        let Ok(origin) = origin.to_str() else {
            return false;
        };
        let host = headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        self.all
            || host.is_some_and(|host| is_same_origin(origin, host))
            || self
                .listed
                .iter()
                .any(|listed| listed.eq_ignore_ascii_case(origin))
    }
}

/// True if a page of `origin` was loaded from `host`. A browser omits the default port of the scheme.
fn is_same_origin(origin: &str, host: &str) -> bool {
    let (port, address) = match origin.split_once("://") {
        Some(("http", address)) => (":80", address),
        Some(("https", address)) => (":443", address),
        _ => return false,
    };
    let plain = |address: &str| {
        address
            .strip_suffix(port)
            .unwrap_or(address)
            .to_ascii_lowercase()
    };
    plain(address) == plain(host)
}

/// Response to a page of another origin.
pub(super) fn origin_error() -> Response {
    ApiError::new(
        ErrorCode::OriginNotAllowed,
        "the origin of this page is not allowed; add it to server.allowed_origins",
    )
    .into_response()
}

/// Origin of a request, with the result of the check.
pub(super) struct OriginCheck {
    origin: Option<HeaderValue>,
    /// True if the request may be served; always true without an `Origin`.
    pub(super) allowed: bool,
    /// True for a CORS preflight request.
    pub(super) preflight: bool,
}

impl CorsPolicy {
    /// Checks the origin of a request.
    pub(super) fn check_origin<B>(&self, request: &Request<B>) -> OriginCheck {
        let origin = request.headers().get(header::ORIGIN).cloned();
        let allowed = origin
            .as_ref()
            .is_none_or(|origin| self.allows(origin, request.headers()));
        OriginCheck {
            preflight: origin.is_some() && is_preflight(request),
            origin,
            allowed,
        }
    }
}

impl OriginCheck {
    /// Adds the headers that allow the page to read the response.
    pub(super) fn add_headers(self, headers: &mut HeaderMap) {
        headers.insert(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        );
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
        if let Some(origin) = self.origin.filter(|_| self.allowed) {
            add_cors_headers(headers, origin, self.preflight);
        }
    }
}

fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn add_cors_headers(headers: &mut HeaderMap, origin: HeaderValue, preflight: bool) {
    let mut put = |name: HeaderName, value| headers.insert(name, value);
    put(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    put(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    if preflight {
        put(header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
        put(header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
        put(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_MAX_AGE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(listed: &[&str], origin: &str, host: &str) -> bool {
        let listed: Vec<String> = listed.iter().map(|&origin| origin.to_owned()).collect();
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        CorsPolicy::new(&listed).allows(&origin.parse().unwrap(), &headers)
    }

    #[test]
    fn the_servers_own_pages_may_call_whatever_the_scheme_and_the_port() {
        for (origin, host) in [
            ("http://127.0.0.1:7070", "127.0.0.1:7070"),
            ("https://chat.example.com", "chat.example.com"),
            ("https://chat.example.com", "Chat.Example.com:443"),
            ("http://chat.example.com", "chat.example.com:80"),
            ("http://[::1]:7070", "[::1]:7070"),
        ] {
            assert!(allows(&[], origin, host), "{origin} {host}");
        }
    }

    #[test]
    fn requests_from_other_origins_are_rejected() {
        for origin in [
            "http://127.0.0.1:7071",
            "http://127.0.0.1",
            "http://127.0.0.1:7070.example.com",
            "http://localhost:7070",
            "chrome-extension://127.0.0.1:7070",
            "null",
            "",
        ] {
            assert!(!allows(&[], origin, "127.0.0.1:7070"), "{origin}");
        }
        assert!(!allows(&[], "http://a.example:443", "a.example"));
    }

    #[test]
    fn listed_origins_are_allowed_and_a_star_allows_all() {
        let listed = ["https://chat.example.com", "http://localhost:3000"];
        assert!(allows(&listed, "https://chat.example.com", "api:1"));
        assert!(allows(&listed, "http://localhost:3000", "api:1"));
        assert!(!allows(&listed, "http://chat.example.com", "api:1"));
        assert!(!allows(
            &listed,
            "https://chat.example.com.evil.example",
            "api:1"
        ));
        assert!(allows(&["*"], "null", "api:1"));
    }
}
