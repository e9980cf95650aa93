//! The HTTP side: `/healthz` says that the process lives, `/readyz` that its parts answer.
//!
//! Always true:
//! 1. Readiness is asked anew by each request and bounded by the store's own time-out, so it is never stale and never hangs.
//! 2. Every answer that is an error of the request has a [`problem`] as its body.

pub mod connections;
pub mod problem;

use std::time::Duration;

use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;

use crate::lifecycle::Opening;
use problem::Problem;

/// What the routes need.
#[derive(Clone)]
pub struct Parts {
    /// The store, as far as it is open.
    pub store: watch::Receiver<Opening>,
    /// How long it may take to answer.
    pub timeout: Duration,
}

/// All routes.
pub fn router(parts: Parts) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .with_state(parts)
}

async fn no_route(uri: Uri) -> Problem {
    let detail = format!("there is nothing at {}", uri.path());
    Problem::new(StatusCode::NOT_FOUND, "not_found", detail)
}

async fn no_method(method: Method, uri: Uri) -> Problem {
    let detail = format!(
        "{} does not take {method}; the header Allow names what it takes",
        uri.path()
    );
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

async fn healthz() -> Response {
    Json(json!({ "alive": true, "version": env!("CARGO_PKG_VERSION") })).into_response()
}

#[derive(Serialize)]
struct Part {
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Part {
    fn of(answer: Result<(), String>) -> Part {
        Part {
            ready: answer.is_ok(),
            reason: answer.err(),
        }
    }
}

async fn readyz(State(parts): State<Parts>) -> Response {
    let opening = parts.store.borrow().clone();
    let store = Part::of(ping(opening, parts.timeout).await);
    let status = if store.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (
        status,
        Json(json!({ "ready": store.ready, "parts": { "store": store } })),
    )
        .into_response()
}

async fn ping(opening: Opening, timeout: Duration) -> Result<(), String> {
    let mut store = match opening {
        Opening::Open(store) => store,
        Opening::Waiting(reason) => return Err(reason),
    };
    let ping = redis::cmd("PING");
    match tokio::time::timeout(timeout, ping.query_async::<String>(&mut store)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!(
            "the store did not answer within {} ms",
            timeout.as_millis()
        )),
    }
}
