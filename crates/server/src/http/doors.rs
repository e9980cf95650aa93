//! Where a request goes: to Socket.IO or to the routes.
//!
//! Always true: a page is checked before either of them sees its request.

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
use parlor_socketio::{Client, UpgradedTcpStream};

use super::impatient::WriteTimeoutStream;
use super::origins::{self, CorsPolicy};
use crate::address::PeerAddress;
use crate::app::AppState;
use crate::gateway;

/// Most bytes of a `User-Agent` that are kept.
const MAX_USER_AGENT_BYTES: usize = 256;

/// What answers requests. Cloning copies pointers.
#[derive(Clone)]
pub struct HttpService {
    router: TowerToHyperService<Router>,
    sockets: Option<Arc<SocketIoEndpoint>>,
}

/// The way to Socket.IO.
struct SocketIoEndpoint {
    app: AppState,
    server: Arc<gateway::GatewayServer>,
    origins: CorsPolicy,
}

impl From<Router> for HttpService {
    /// The routes alone.
    fn from(router: Router) -> Self {
        Self {
            router: TowerToHyperService::new(router),
            sockets: None,
        }
    }
}

impl HttpService {
    /// The routes, and Socket.IO. Pages of `origins` may call, beyond those of the server itself.
    pub fn new(
        router: Router,
        app: AppState,
        server: Arc<gateway::GatewayServer>,
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

    /// Answers a request.
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
            origins::origin_error()
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

    fn client_info(&self, request: &Request<Incoming>) -> Client {
        let headers = request.headers();
        let agent = headers.get(header::USER_AGENT);
        let agent = agent.and_then(|agent| agent.to_str().ok());
        // A header is read as text only if every character is one byte.
        let agent = agent.map(|agent| agent[..agent.len().min(MAX_USER_AGENT_BYTES)].into());
        Client {
            address: self
                .app
                .client_address(request.extensions().get::<PeerAddress>(), headers),
            user_agent: agent,
            ..Client::default()
        }
    }
}

/// Gets the stream back from hyper, with what it had read ahead.
fn downcast_upgraded(upgraded: Upgraded) -> Result<UpgradedTcpStream, Upgraded> {
    let parts = upgraded.downcast::<TokioIo<WriteTimeoutStream>>()?;
    let (stream, owed) = parts.io.into_inner().into_parts();
    Ok(UpgradedTcpStream {
        stream,
        read_buf: parts.read_buf,
        unsent_response: owed,
    })
}
