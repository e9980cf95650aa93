//! `/healthz` reports that the process runs, `/readyz` that the node serves requests.
//!
//! Invariants:
//! 1. Each `/readyz` request runs the checks with their timeouts, so the response is never stale and never hangs.
//! 2. A node that has started stays ready without the store, and while the database accepts no writes, marked as degraded;
//!    `/readyz?strict` then returns 503.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

use crate::app_state::AppState;
use crate::readiness::NotReady;

pub(super) async fn healthz() -> Response {
    Json(json!({ "alive": true, "version": env!("CARGO_PKG_VERSION") })).into_response()
}

#[derive(Serialize)]
struct PartReadiness {
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl PartReadiness {
    fn of(answer: Result<(), NotReady>) -> PartReadiness {
        let not_ready = answer.err();
        let code = not_ready.as_ref().and_then(|it| it.code);
        PartReadiness {
            ready: not_ready.is_none(),
            code: code.map(|code| code.to_string()),
            reason: not_ready.map(|it| it.reason),
        }
    }
}

/// With `?strict`, a node that is degraded is not ready.
pub(super) async fn readyz(State(app): State<AppState>, RawQuery(query): RawQuery) -> Response {
    let readiness = app.readiness().await;
    let is_strict = query.is_some_and(|query| {
        let names = query.split('&').map(|it| it.split('=').next());
        names.into_iter().any(|name| name == Some("strict"))
    });
    let ready = match is_strict {
        true => readiness.is_ready(),
        false => readiness.is_serving(),
    };
    let degraded = readiness.is_serving() && !readiness.is_ready();
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
    let body = json!({ "ready": ready, "degraded": degraded, "parts": parts });
    (status, Json(body)).into_response()
}
