//! `/healthz` reports that the process runs, `/readyz` that store, database and node are ready.
//!
//! Invariants:
//! 1. Each `/readyz` request runs the checks with their timeouts, so the response is never stale and never hangs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

use crate::app_state::AppState;

pub(super) async fn healthz() -> Response {
    Json(json!({ "alive": true, "version": env!("CARGO_PKG_VERSION") })).into_response()
}

#[derive(Serialize)]
struct PartReadiness {
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl PartReadiness {
    fn of(answer: Result<(), String>) -> PartReadiness {
        PartReadiness {
            ready: answer.is_ok(),
            reason: answer.err(),
        }
    }
}

pub(super) async fn readyz(State(app): State<AppState>) -> Response {
    let readiness = app.readiness().await;
    let ready = readiness.is_ready();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let parts = json!({
        "store": PartReadiness::of(readiness.store),
        "database": PartReadiness::of(readiness.database),
        "node": PartReadiness::of(readiness.node),
    });
    let body = json!({ "ready": ready, "parts": parts });
    (status, Json(body)).into_response()
}
