//! Service of a connection: checks the origin of each request, then sends it to Socket.IO or to the router.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use parlor_socketio::{ClientInfo, UpgradedTcpStream};

use super::body;
use super::cors::{self, CorsPolicy};
use super::write_timeout::WriteTimeoutStream;
use crate::app_state::AppState;
use crate::client_address::PeerAddress;
use crate::socketio::GatewayServer;

/// Maximum bytes of a `User-Agent` that are stored.
const MAX_USER_AGENT_BYTES: usize = 256;

/// HTTP service of a connection. Cloning copies pointers.
#[derive(Clone)]
pub struct HttpService {
    app: AppState,
    router: TowerToHyperService<Router>,
    socketio: Arc<GatewayServer>,
    cors: CorsPolicy,
}

impl HttpService {
    /// A service with the routes and Socket.IO. `origins` lists the allowed origins besides the server's own.
    pub fn new(app: AppState, socketio: Arc<GatewayServer>, origins: &[String]) -> Self {
        Self {
            router: TowerToHyperService::new(super::router(app.clone())),
            app,
            socketio,
            cors: CorsPolicy::new(origins),
        }
    }

    /// Handles a request. The health checks ignore its origin.
    pub async fn handle_request(self, request: Request<Incoming>) -> Response {
        let path = request.uri().path();
        let is_operation = path.starts_with("/v1/");
        let is_health_check = path == "/healthz" || path == "/readyz";
        let origin = self.cors.check_origin(&request);
        let mut response = if !origin.allowed && !is_health_check {
            body::discard_body(Body::new(request.into_body())).await;
            cors::origin_error()
        } else if origin.allowed && origin.preflight {
            StatusCode::NO_CONTENT.into_response()
        } else if self.socketio.matches_path(path) {
            let client = self.client_info(&request);
            let response = self
                .socketio
                .handle_request(request, client, downcast_upgraded);
            response.await.map(Body::new)
        } else {
            let Ok(response) = self.router.call(request).await;
            response
        };
        let headers = response.headers_mut();
        if is_operation {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        origin.add_headers(headers);
        response
    }

    fn client_info(&self, request: &Request<Incoming>) -> ClientInfo {
        let headers = request.headers();
        let agent = headers.get(header::USER_AGENT);
        let agent = agent.and_then(|agent| agent.to_str().ok());
        // `to_str` accepts ASCII only, so every index is a character boundary.
        let agent = agent.map(|agent| agent[..agent.len().min(MAX_USER_AGENT_BYTES)].into());
        ClientInfo {
            address: self
                .app
                .client_address(request.extensions().get::<PeerAddress>(), headers),
            user_agent: agent,
            ..ClientInfo::default()
        }
    }
}

/// Gets the TCP stream out of hyper, with the bytes that hyper has already read.
fn downcast_upgraded(upgraded: Upgraded) -> Result<UpgradedTcpStream, Upgraded> {
    let parts = upgraded.downcast::<TokioIo<WriteTimeoutStream>>()?;
    let (stream, unsent_response) = parts.io.into_inner().into_parts();
    Ok(UpgradedTcpStream {
        stream,
        read_buf: parts.read_buf,
        unsent_response,
    })
}
