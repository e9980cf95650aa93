//! The service in front of all methods: timeout, authentication, error codes.
//!
//! Invariants:
//! 1. A method of a Parlor service runs only with a valid token and session, and the body is not read before that
//!    check.
//! 2. Every call gets its response, or the first part of it, within [`RESPONSE_TIMEOUT`].
//! 3. Every error of a Parlor service has an error code.

use std::time::Duration;

use futures_util::StreamExt;
use http_body_util::{BodyStream, StreamBody};
use hyper::body::Incoming;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::AuthRequirement;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response, header};
use tonic::service::Routes;

use super::errors::{ERROR_CODE_TRAILER, with_error_code};
use crate::api_error::ApiError;
use crate::app_state::{AppState, RequestCredentials};
use crate::client_address::PeerAddress;

/// Time for the client to send its request and for the server to begin the response.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Path prefix of the services that require a token.
const PARLOR_PATH_PREFIX: &str = "/parlor.";
/// Path prefix of the reflection service, whose request streams only the client ends.
const REFLECTION_PATH_PREFIX: &str = "/grpc.reflection.";

/// Service in front of all methods.
#[derive(Clone)]
pub(super) struct AuthenticatingService {
    app: AppState,
    routes: Routes,
}

impl AuthenticatingService {
    pub(super) fn new(app: AppState, routes: Routes) -> Self {
        Self { app, routes }
    }

    /// Handles a call.
    pub(super) async fn call_with_timeout(self, request: Request<Incoming>) -> Response<Body> {
        match timeout(RESPONSE_TIMEOUT, self.authenticate_and_route(request)).await {
            Ok(response) => response,
            Err(_) => {
                let detail = format!(
                    "the request was not answered within {} s",
                    RESPONSE_TIMEOUT.as_secs()
                );
                Status::from(ApiError::new(ErrorCode::RequestTimeout, detail)).into_http()
            }
        }
    }

    async fn authenticate_and_route(mut self, mut request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path();
        if path.starts_with(REFLECTION_PATH_PREFIX) {
            return self.route_until_shutdown(request).await;
        }
        if path.starts_with(PARLOR_PATH_PREFIX) {
            let headers = request.headers();
            let token = headers.get(header::AUTHORIZATION);
            let token = token.map(|token| token.to_str()).transpose();
            let credentials = RequestCredentials {
                authorization: token.map_err(|_| invalid_header_error()),
                acting_user: Ok(None),
                client_address: self
                    .app
                    .client_address(request.extensions().get::<PeerAddress>(), headers),
            };
            match self
                .app
                .admit_request(&credentials, AuthRequirement::Session)
                .await
                .caller
            {
                Ok(caller) => drop(request.extensions_mut().insert(caller)),
                Err(error) => return Status::from(error).into_http(),
            }
        }
        let Ok(response) = self.routes.call(request).await;
        add_error_code(response)
    }

    /// Handles a call whose request stream can stay open forever: the shutdown ends the stream.
    async fn route_until_shutdown(mut self, request: Request<Incoming>) -> Response<Body> {
        let app = self.app;
        let request = request.map(|body| {
            let stop = async move { app.wait_for_shutdown().await };
            StreamBody::new(BodyStream::new(body).take_until(Box::pin(stop)))
        });
        let Ok(response) = self.routes.call(request).await;
        response
    }
}

fn invalid_header_error() -> ApiError {
    let detail = "`authorization` in the metadata is not visible ASCII";
    ApiError::new(ErrorCode::TokenInvalid, detail)
}

fn add_error_code(response: Response<Body>) -> Response<Body> {
    let headers = response.headers();
    if headers.contains_key(ERROR_CODE_TRAILER) {
        return response;
    }
    let status = Status::from_header_map(headers);
    match status.as_ref().and_then(with_error_code) {
        Some(status) => status.into_http(),
        None => response,
    }
}
