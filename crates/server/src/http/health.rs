//! `/healthz` says that the process lives, `/readyz` that its parts answer.
//!
//! Always true: readiness is asked anew by each request and bounded, so it is never stale and never hangs.

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
    let readiness = app.readiness().await;
    let ready = readiness.is_ready();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let parts = json!({
        "store": Part::of(readiness.store),
        "database": Part::of(readiness.database),
        "node": Part::of(readiness.node),
    });
    let body = json!({ "ready": ready, "parts": parts });
    (status, Json(body)).into_response()
}
