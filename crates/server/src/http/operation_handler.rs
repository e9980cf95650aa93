//! The axum handler of all operations: authorize the caller, decode the request, run the operation, respond.
//!
//! Invariants:
//! 1. The token is checked before the body is read.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use parlor_chat::api::caller::Caller;
use parlor_chat::api::error_code::ErrorCode;

use super::body;
use super::rate_limit_headers;
use super::request_decoder::{RequestDecoder, RequestParts};
use super::routes::{HttpOperation, Route};
use crate::api_error::ApiError;
use crate::app_state::{Admission, AppState, RequestCredentials};
use crate::client_address::PeerAddress;

/// Header with the user that a service acts for.
pub(super) const ACTING_USER_HEADER: &str = "parlor-user";

/// Header with the key of an idempotent request.
pub(super) const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";

type Params = Result<RawPathParams, RawPathParamsRejection>;

/// Handler of an operation.
pub(super) fn operation_handler<O: HttpOperation>(route: &'static Route) -> MethodRouter<AppState> {
    let decoder = Arc::new(RequestDecoder::new(&(route.schema)()));
    let handle = move |State(app): State<AppState>, params: Params, request: Request| {
        let decoder = decoder.clone();
        async move {
            let (head, body) = request.into_parts();
            let Admission { rate_limit, caller } = admit_request::<O>(&app, &head).await;
            let result = match caller {
                Ok(caller) => {
                    decode_and_run::<O>(&app, &decoder, &caller, params, &head, body).await
                }
                Err(error) => {
                    body::discard_body(body).await;
                    Err(error)
                }
            };
            let mut response = match result {
                Ok(reply) => success_response::<O>(&reply),
                Err(error) => error.into_response(),
            };
            if let Some(decision) = rate_limit {
                rate_limit_headers::add_rate_limit_headers(&decision, response.headers_mut());
            }
            response
        }
    };
    let filter = MethodFilter::try_from(route.method.clone());
    on(filter.expect("routes have standard methods"), handle)
}

pub(super) fn success_response<O: HttpOperation>(reply: &O::Reply) -> Response {
    let status = if O::is_new(reply) {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    (status, Json(reply)).into_response()
}

async fn decode_and_run<O: HttpOperation>(
    app: &AppState,
    decoder: &RequestDecoder,
    caller: &Caller,
    params: Params,
    head: &Parts,
    body: Body,
) -> Result<O::Reply, ApiError> {
    let body = body::read_body(body).await?;
    let parts = RequestParts {
        path: &params.map_err(|rejection| invalid_path_error(&rejection))?,
        query: head.uri.query().unwrap_or_default(),
        body: &body,
        key: header_text(
            &head.headers,
            IDEMPOTENCY_KEY_HEADER,
            ErrorCode::InvalidRequest,
        )?,
    };
    let operation: O = decoder.decode(&parts)?;
    app.run_operation(caller, operation).await
}

async fn admit_request<O: HttpOperation>(app: &AppState, head: &Parts) -> Admission {
    let headers = &head.headers;
    let credentials = RequestCredentials {
        authorization: header_text(
            headers,
            header::AUTHORIZATION.as_str(),
            ErrorCode::TokenInvalid,
        ),
        acting_user: header_text(headers, ACTING_USER_HEADER, ErrorCode::InvalidId),
        client_address: app.client_address(head.extensions.get::<PeerAddress>(), headers),
    };
    app.admit_request(&credentials, O::AUTH).await
}

fn header_text<'h>(
    headers: &'h HeaderMap,
    name: &str,
    code: ErrorCode,
) -> Result<Option<&'h str>, ApiError> {
    let unreadable = |_| ApiError::new(code, format!("the header `{name}` is not visible ASCII"));
    let value = headers.get(name).map(|value| value.to_str());
    value.transpose().map_err(unreadable)
}

fn invalid_path_error(rejection: &RawPathParamsRejection) -> ApiError {
    let text = format!("the path cannot be decoded: {}", rejection.body_text());
    ApiError::new(ErrorCode::InvalidRequest, text)
}
