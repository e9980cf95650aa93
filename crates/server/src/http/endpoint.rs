//! One endpoint for all operations: who calls, what they ask for, the answer.
//!
//! Always true: the token is checked before the body is read.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, header};
use axum::routing::{MethodRouter, on};
use parlor_chat::access::Caller;
use parlor_chat::code::Code;

use super::arguments::{Arguments, Reader};
use super::body;
use super::problem::Problem;
use super::table::{Callable, Route};
use crate::app::App;
use crate::wire::Refusal;

/// The header by which a service names the user it acts for.
pub(super) const ACTING_FOR: &str = "parlor-user";

type Params = Result<RawPathParams, RawPathParamsRejection>;

/// The endpoint of an operation.
pub(super) fn of<O: Callable>(route: &'static Route) -> MethodRouter<App> {
    let reader = Arc::new(Reader::new(&route.shape()));
    let answer = move |State(app): State<App>, params: Params, request: Request| {
        let reader = reader.clone();
        async move {
            let answered = answer::<O>(&app, &reader, params, request).await;
            answered.map(Json).map_err(Problem::from)
        }
    };
    on(route.method.filter(), answer)
}

async fn answer<O: Callable>(
    app: &App,
    reader: &Reader,
    params: Params,
    request: Request,
) -> Result<O::Reply, Refusal> {
    let (head, body) = request.into_parts();
    let caller = match caller(app, &head.headers).await {
        Ok(caller) => caller,
        Err(refusal) => {
            body::forget(body).await;
            return Err(refusal);
        }
    };
    let body = body::read(body).await?;
    let arguments = Arguments {
        path: &params.map_err(|rejection| undecodable(&rejection))?,
        query: head.uri.query().unwrap_or_default(),
        body: &body,
    };
    let operation: O = reader.read(&arguments)?;
    app.run(&caller, operation).await
}

async fn caller(app: &App, headers: &HeaderMap) -> Result<Caller, Refusal> {
    let authorization = text(headers, header::AUTHORIZATION.as_str(), Code::TokenInvalid)?;
    let acting_for = text(headers, ACTING_FOR, Code::InvalidId)?;
    app.caller(authorization, acting_for).await
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
