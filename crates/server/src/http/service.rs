//! Service of a connection: sends each request to Socket.IO or to the router.
//!
//! Invariants:
//! 1. The origin of a request is checked before Socket.IO or an operation handles it.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use parlor_socketio::{ClientInfo, UpgradedTcpStream};

use super::cors::{self, CorsPolicy};
use super::write_timeout::WriteTimeoutStream;
use crate::app_state::AppState;
use crate::client_address::PeerAddress;
use crate::socketio;

/// Maximum bytes of a `User-Agent` that are stored.
const MAX_USER_AGENT_BYTES: usize = 256;

/// HTTP service of a connection. Cloning copies pointers.
#[derive(Clone)]
pub struct HttpService {
    router: TowerToHyperService<Router>,
    sockets: Option<Arc<SocketIoEndpoint>>,
}

/// Socket.IO server with what it needs per request.
struct SocketIoEndpoint {
    app: AppState,
    server: Arc<socketio::GatewayServer>,
    origins: CorsPolicy,
}

impl From<Router> for HttpService {
    /// A service without Socket.IO.
    fn from(router: Router) -> Self {
        Self {
            router: TowerToHyperService::new(router),
            sockets: None,
        }
    }
}

impl HttpService {
    /// A service with the routes and Socket.IO. `origins` lists the allowed origins besides the server's own.
    pub fn new(
        router: Router,
        app: AppState,
        server: Arc<socketio::GatewayServer>,
        origins: &[String],
    ) -> Self {
        let sockets = SocketIoEndpoint {
            app,
            server,
            origins: CorsPolicy::new(origins),
        };
        Self {
            router: TowerToHyperService::new(router),
            sockets: Some(Arc::new(sockets)),
        }
    }

    /// Handles a request.
    pub(super) async fn serve(self, request: Request<Incoming>) -> Result<Response, Infallible> {
        match self.sockets {
            Some(sockets) if sockets.server.matches_path(request.uri().path()) => {
                Ok(sockets.serve(request).await)
            }
            _ => self.router.call(request).await,
        }
    }
}

impl SocketIoEndpoint {
    async fn serve(&self, request: Request<Incoming>) -> Response {
        let page = self.origins.check_origin(&request);
        let mut response = if !page.allowed {
            cors::origin_error()
        } else if page.preflight {
            StatusCode::NO_CONTENT.into_response()
        } else {
            let client = self.client_info(&request);
            let answer = self
                .server
                .handle_request(request, client, downcast_upgraded);
            answer.await.map(Body::new)
        };
        page.add_headers(response.headers_mut());
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
    let (stream, owed) = parts.io.into_inner().into_parts();
    Ok(UpgradedTcpStream {
        stream,
        read_buf: parts.read_buf,
        unsent_response: owed,
    })
}
