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

use crate::app::App;
pub use doors::Doors;
use origins::Origins;
use problem::Problem;

/// All routes. Pages of `origins` may call, beyond those of the server itself.
pub fn router(app: App, origins: &[String]) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .merge(docs::router());
    for route in table::ROUTES {
        router = router.route(route.path, route.endpoint());
    }
    router
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(Origins::new(origins), origins::guard))
        .with_state(app)
}

async fn no_route(uri: Uri, body: Body) -> Problem {
    body::forget(body).await;
    let detail = format!("there is nothing at {}", uri.path());
    Problem::new(Code::NotFound, detail)
}

/// Both answers get the header `Allow` from the router.
async fn no_method(method: Method, uri: Uri, body: Body) -> Response {
    body::forget(body).await;
    if method == Method::OPTIONS {
        return StatusCode::NO_CONTENT.into_response();
    }
    let detail = format!(
        "{} does not take {method}; the header Allow names what it takes",
        uri.path()
    );
    Problem::new(Code::MethodNotAllowed, detail).into_response()
}
