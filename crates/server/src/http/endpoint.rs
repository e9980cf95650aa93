//! One endpoint for all operations: who calls, what they ask for, the answer.
//!
//! Always true: the token is checked before the body is read.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, on};
use parlor_chat::access::Caller;
use parlor_chat::code::Code;

use super::arguments::{Arguments, Reader};
use super::body;
use super::problem::Problem;
use super::quota;
use super::table::{Callable, Route};
use crate::address::Peer;
use crate::app::{Admission, App, Shown};
use crate::wire::Refusal;

/// The header by which a service names the user it acts for.
pub(super) const ACTING_FOR: &str = "parlor-user";

/// The header with the key that makes a repeated request one with the first.
pub(super) const KEY: &str = "idempotency-key";

type Params = Result<RawPathParams, RawPathParamsRejection>;

/// The endpoint of an operation.
pub(super) fn of<O: Callable>(route: &'static Route) -> MethodRouter<App> {
    let reader = Arc::new(Reader::new(&route.shape()));
    let answer = move |State(app): State<App>, params: Params, request: Request| {
        let reader = reader.clone();
        async move {
            let (head, body) = request.into_parts();
            let Admission { quota, caller } = admitted::<O>(&app, &head).await;
            let answered = match caller {
                Ok(caller) => answer::<O>(&app, &reader, &caller, params, &head, body).await,
                Err(refusal) => {
                    body::forget(body).await;
                    Err(refusal)
                }
            };
            let mut response = match answered {
                Ok(reply) => done::<O>(&reply),
                Err(refusal) => Problem::from(refusal).into_response(),
            };
            if let Some(verdict) = quota {
                quota::tell(&verdict, response.headers_mut());
            }
            response
        }
    };
    on(route.method.filter(), answer)
}

pub(super) fn done<O: Callable>(reply: &O::Reply) -> Response {
    let status = if O::created(reply) {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    (status, Json(reply)).into_response()
}

async fn answer<O: Callable>(
    app: &App,
    reader: &Reader,
    caller: &Caller,
    params: Params,
    head: &Parts,
    body: Body,
) -> Result<O::Reply, Refusal> {
    let body = body::read(body).await?;
    let arguments = Arguments {
        path: &params.map_err(|rejection| undecodable(&rejection))?,
        query: head.uri.query().unwrap_or_default(),
        body: &body,
        key: text(&head.headers, KEY, Code::InvalidRequest)?,
    };
    let operation: O = reader.read(&arguments)?;
    app.run(caller, operation).await
}

async fn admitted<O: Callable>(app: &App, head: &Parts) -> Admission {
    let headers = &head.headers;
    let shown = Shown {
        authorization: text(headers, header::AUTHORIZATION.as_str(), Code::TokenInvalid),
        acting_for: text(headers, ACTING_FOR, Code::InvalidId),
        address: app.address(head.extensions.get::<Peer>(), headers),
    };
    app.admit(&shown, O::NEEDS).await
}

fn text<'h>(headers: &'h HeaderMap, name: &str, code: Code) -> Result<Option<&'h str>, Refusal> {
    let unreadable = |_| Refusal::new(code, format!("the header `{name}` is not plain text"));
    let value = headers.get(name).map(|value| value.to_str());
    value.transpose().map_err(unreadable)
}

fn undecodable(rejection: &RawPathParamsRejection) -> Refusal {
    let text = format!("the address cannot be read: {}", rejection.body_text());
    Refusal::new(Code::InvalidRequest, text)
}
