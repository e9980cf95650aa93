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
use parlor_socketio::{Client, Taken};

use super::impatient::Impatient;
use super::origins::{self, Origins};
use crate::address::Peer;
use crate::app::App;
use crate::gateway;

/// Most bytes of a `User-Agent` that are kept.
const MOST_AGENT: usize = 256;

/// What answers requests. Cloning copies pointers.
#[derive(Clone)]
pub struct Doors {
    router: TowerToHyperService<Router>,
    sockets: Option<Arc<Sockets>>,
}

/// The way to Socket.IO.
struct Sockets {
    app: App,
    server: Arc<gateway::Server>,
    origins: Origins,
}

impl From<Router> for Doors {
    /// The routes alone.
    fn from(router: Router) -> Self {
        Self {
            router: TowerToHyperService::new(router),
            sockets: None,
        }
    }
}

impl Doors {
    /// The routes, and Socket.IO. Pages of `origins` may call, beyond those of the server itself.
    pub fn new(router: Router, app: App, server: Arc<gateway::Server>, origins: &[String]) -> Self {
        let sockets = Sockets {
            app,
            server,
            origins: Origins::new(origins),
        };
        Self {
            router: TowerToHyperService::new(router),
            sockets: Some(Arc::new(sockets)),
        }
    }

    /// Answers a request.
    pub(super) async fn serve(self, request: Request<Incoming>) -> Result<Response, Infallible> {
        match self.sockets {
            Some(sockets) if sockets.server.takes(request.uri().path()) => {
                Ok(sockets.serve(request).await)
            }
            _ => self.router.call(request).await,
        }
    }
}

impl Sockets {
    async fn serve(&self, request: Request<Incoming>) -> Response {
        let page = self.origins.page(&request);
        let mut response = if !page.allowed {
            origins::not_allowed()
        } else if page.preflight {
            StatusCode::NO_CONTENT.into_response()
        } else {
            let client = self.client(&request);
            let answer = self.server.handle(request, client, take_back);
            answer.await.map(Body::new)
        };
        page.tell(response.headers_mut());
        response
    }

    fn client(&self, request: &Request<Incoming>) -> Client {
        let headers = request.headers();
        let agent = headers.get(header::USER_AGENT);
        let agent = agent.and_then(|agent| agent.to_str().ok());
        // A header is read as text only if every character is one byte.
        let agent = agent.map(|agent| agent[..agent.len().min(MOST_AGENT)].into());
        Client {
            address: self
                .app
                .address(request.extensions().get::<Peer>(), headers),
            user_agent: agent,
            ..Client::default()
        }
    }
}

/// Gets the stream back from hyper, with what it had read ahead.
fn take_back(upgraded: Upgraded) -> Result<Taken, Upgraded> {
    let parts = upgraded.downcast::<TokioIo<Impatient>>()?;
    let (stream, owed) = parts.io.into_inner().into_parts();
    Ok(Taken {
        stream,
        ahead: parts.read_buf,
        owed,
    })
}
