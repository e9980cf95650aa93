//! What every call goes through.
//!
//! Always true:
//! 1. No service of ours sees a call without a valid token, and nothing of its body is read before.
//! 2. Every call is answered, or begins to be, within [`ANSWER`].
//! 3. Every refusal of a call of ours has a code.

use std::time::Duration;

use futures_util::StreamExt;
use http_body_util::{BodyStream, StreamBody};
use hyper::body::Incoming;
use parlor_chat::code::Code;
use parlor_chat::operation::Needs;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response, header};
use tonic::service::Routes;

use super::status::{CODE, coded};
use crate::address::Peer;
use crate::app::{App, Shown};
use crate::wire::Refusal;

/// How long a client may take for its request and we for the first of the answer.
pub const ANSWER: Duration = Duration::from_secs(30);

/// The services that want a token.
const OURS: &str = "/parlor.";
/// The service whose clients say when they have asked the last.
const REFLECTION: &str = "/grpc.reflection.";

/// The way to the services.
#[derive(Clone)]
pub(super) struct Gate {
    app: App,
    routes: Routes,
}

impl Gate {
    pub(super) fn new(app: App, routes: Routes) -> Self {
        Self { app, routes }
    }

    /// Answers a call.
    pub(super) async fn answer(self, request: Request<Incoming>) -> Response<Body> {
        match timeout(ANSWER, self.admit(request)).await {
            Ok(answer) => answer,
            Err(_) => {
                let detail = format!("there was no answer within {} s", ANSWER.as_secs());
                Status::from(Refusal::new(Code::RequestTimeout, detail)).into_http()
            }
        }
    }

    async fn admit(mut self, mut request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path();
        if path.starts_with(REFLECTION) {
            return self.until_stop(request).await;
        }
        if path.starts_with(OURS) {
            let headers = request.headers();
            let token = headers.get(header::AUTHORIZATION);
            let token = token.map(|token| token.to_str()).transpose();
            let shown = Shown {
                authorization: token.map_err(|_| unreadable()),
                acting_for: Ok(None),
                address: self
                    .app
                    .address(request.extensions().get::<Peer>(), headers),
            };
            match self.app.admit(&shown, Needs::Session).await.caller {
                Ok(caller) => drop(request.extensions_mut().insert(caller)),
                Err(refusal) => return Status::from(refusal).into_http(),
            }
        }
        let Ok(answer) = self.routes.call(request).await;
        with_code(answer)
    }

    /// Answers somebody who may ask for ever, and is taken to have asked the last when the server stops.
    async fn until_stop(mut self, request: Request<Incoming>) -> Response<Body> {
        let app = self.app;
        let request = request.map(|body| {
            let stop = async move { app.stopping().await };
            StreamBody::new(BodyStream::new(body).take_until(Box::pin(stop)))
        });
        let Ok(answer) = self.routes.call(request).await;
        answer
    }
}

fn unreadable() -> Refusal {
    let detail = "`authorization` in the metadata is not plain text";
    Refusal::new(Code::TokenInvalid, detail)
}

fn with_code(answer: Response<Body>) -> Response<Body> {
    let headers = answer.headers();
    if headers.contains_key(CODE) {
        return answer;
    }
    let refused = Status::from_header_map(headers);
    match refused.as_ref().and_then(coded) {
        Some(status) => status.into_http(),
        None => answer,
    }
}
