//! The HTTP side: the operations under `/v1`, their reference, and the health of the process.
//!
//! Always true:
//! 1. Which address leads to which operation stands in [`table`], and nowhere else; the routes and the OpenAPI document are
//!    made from it.
//! 2. Origin, token, body, in this order: who may not call is told so before the body is read.
//! 3. Every answer that is an error of a request has a [`problem`] as its body.

mod arguments;
mod body;
pub mod connections;
mod docs;
mod doors;
mod endpoint;
mod health;
mod impatient;
pub mod openapi;
mod origins;
pub mod problem;
mod quota;
pub mod reference;
pub mod table;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parlor_chat::code::Code;

use crate::app::AppState;
pub use doors::HttpService;
use origins::CorsPolicy;
use problem::Problem;

/// All routes. Pages of `origins` may call, beyond those of the server itself.
pub fn router(app: AppState, origins: &[String]) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .merge(docs::router());
    for route in table::ROUTES {
        router = router.route(route.path, route.endpoint());
    }
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(
            CorsPolicy::new(origins),
            origins::cors_middleware,
        ))
        .with_state(app)
}

async fn not_found(uri: Uri, body: Body) -> Problem {
    body::discard_body(body).await;
    let detail = format!("no such path: {}", uri.path());
    Problem::new(Code::NotFound, detail)
}

/// Both answers get the header `Allow` from the router.
async fn method_not_allowed(method: Method, uri: Uri, body: Body) -> Response {
    body::discard_body(body).await;
    if method == Method::OPTIONS {
        return StatusCode::NO_CONTENT.into_response();
    }
    let detail = format!(
        "{method} is not allowed for {}; see the header Allow",
        uri.path()
    );
    Problem::new(Code::MethodNotAllowed, detail).into_response()
}
