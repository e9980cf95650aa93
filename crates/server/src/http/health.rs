//! `/healthz` says that the process lives, `/readyz` that its parts answer.
//!
//! Always true: readiness is asked anew by each request and bounded by the store's own time-out, so it is never stale and
//! never hangs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

use crate::app::App;

pub(super) async fn healthz() -> Response {
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

pub(super) async fn readyz(State(app): State<App>) -> Response {
    let store = Part::of(app.ready().await);
    let status = if store.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = json!({ "ready": store.ready, "parts": { "store": store } });
    (status, Json(body)).into_response()
}
