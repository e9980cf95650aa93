//! HTTP gateway: the operations under `/v1`, the API reference, and the health checks.
//!
//! Invariants:
//! 1. [`routes`] is the only place that binds paths to operations; the router and docs/openapi.json are built from it.
//! 2. A request is checked in this order: origin, token, body. An unauthorized request is rejected without its body.
//! 3. Every error response has a [`problem`] as its body.

mod body;
mod cors;
mod docs_page;
mod health;
mod operation_handler;
pub mod operation_schema;
pub mod problem;
mod rate_limit_headers;
mod request_decoder;
pub mod routes;
pub mod server;
mod service;
#[cfg(test)]
mod tests;
mod write_timeout;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parlor_chat::api::error_code::ErrorCode;

use crate::api_error::ApiError;
use crate::app_state::AppState;
pub use request_decoder::{MAX_IDEMPOTENCY_KEY_LEN, idempotency_field};
pub use service::HttpService;

/// Builds the router with all routes.
fn router(app: AppState) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .merge(docs_page::router());
    for route in routes::ROUTES {
        router = router.route(route.path, (route.handler)(route));
    }
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(app)
}

async fn not_found(uri: Uri, body: Body) -> ApiError {
    body::discard_body(body).await;
    let detail = format!("no such path: {}", uri.path());
    ApiError::new(ErrorCode::NotFound, detail)
}

/// The router adds the header `Allow` to both responses.
async fn method_not_allowed(method: Method, uri: Uri, body: Body) -> Response {
    body::discard_body(body).await;
    if method == Method::OPTIONS {
        return StatusCode::NO_CONTENT.into_response();
    }
    let detail = format!(
        "{method} is not allowed for {}; see the header Allow",
        uri.path()
    );
    ApiError::new(ErrorCode::MethodNotAllowed, detail).into_response()
}
