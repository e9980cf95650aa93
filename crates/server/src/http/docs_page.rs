//! Pages for people: `/` says what this server is, `/docs/` shows the API reference and sends requests. Also serves the
//! references for programs, `/openapi.json` and `/asyncapi.json`.
//!
//! Invariants:
//! 1. The pages load nothing from other hosts, and their content security policy forbids the browser to do so.
//! 2. All links are relative, so that they work behind a proxy that adds a path prefix.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use parlor_chat::api::error_code::ErrorCode;

use crate::api_error::ApiError;
use crate::app_state::AppState;

/// `make docs` builds both from the [route table](super::routes) and the
/// [event table](crate::socketio::event_table); a test fails if they are not current.
const OPENAPI: &str = include_str!("../../../../docs/openapi.json");
const ASYNCAPI: &str = include_str!("../../../../docs/asyncapi.json");
const HOME: &str = include_str!("docs_page/home.html");
const HOME_STYLE: &str = include_str!("docs_page/home.css");
const PAGE: &str = include_str!("docs_page/page.html");
const STYLE: &str = include_str!("docs_page/style.css");
const START: &str = include_str!("docs_page/start.js");
const ICON: &str = include_str!("docs_page/icon.svg");

/// Allows a style sheet and images of this server, and nothing else.
const HOME_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Allows only files and requests of this server. `unsafe-inline` is for the styles that Swagger UI adds to the page.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
     object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/", get(home))
        .route(
            "/openapi.json",
            get(async || static_response("application/json", OPENAPI)),
        )
        .route(
            "/asyncapi.json",
            get(async || static_response("application/json", ASYNCAPI)),
        )
        .route("/docs", get(async || Redirect::permanent("docs/")))
        .route("/docs/", get(async || static_response("text/html", PAGE)))
        .route("/docs/{file}", get(asset))
}

async fn home() -> Response {
    let page = HOME.replace("{version}", env!("CARGO_PKG_VERSION"));
    let mut response = static_response("text/html", page);
    let policy = HeaderValue::from_static(HOME_SECURITY_POLICY);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

async fn asset(Path(name): Path<String>) -> Response {
    match name.as_str() {
        "home.css" => return static_response("text/css", HOME_STYLE),
        "style.css" => return static_response("text/css", STYLE),
        "start.js" => return static_response("text/javascript", START),
        "icon.svg" => return static_response("image/svg+xml", ICON),
        "swagger-ui.css" | "swagger-ui-bundle.js" => {}
        _ => return asset_not_found(&name),
    }
    let config = Arc::new(utoipa_swagger_ui::Config::default());
    match utoipa_swagger_ui::serve(&name, config) {
        Ok(Some(found)) => {
            let bytes = match found.bytes {
                Cow::Borrowed(bytes) => Bytes::from_static(bytes),
                Cow::Owned(bytes) => bytes.into(),
            };
            static_response(&found.content_type, bytes)
        }
        _ => asset_not_found(&name),
    }
}

fn static_response(kind: &str, content: impl Into<Body>) -> Response {
    let headers: [(HeaderName, &str); 4] = [
        (header::CONTENT_TYPE, &format!("{kind}; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        // Short, because the page changes with the server version.
        (header::CACHE_CONTROL, "public, max-age=300"),
    ];
    (headers, content.into()).into_response()
}

fn asset_not_found(name: &str) -> Response {
    let detail = format!("no such path: /docs/{name}");
    ApiError::new(ErrorCode::NotFound, detail).into_response()
}
