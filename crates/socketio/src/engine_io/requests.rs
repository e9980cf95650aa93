//! HTTP requests: parses the query, finds the session and routes the request.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method, Request, Response};

use super::responses::{self, RequestError};
use super::session::EngineIoSession;
use super::transport_state::TransportKind;
use super::{EngineIoServer, SessionHandler, polling, websocket_handshake};
use crate::{ClientInfo, DowncastUpgraded};

/// Query parameters of Engine.IO; others are ignored.
#[derive(Debug, Default)]
struct EngineIoQuery {
    version: Option<String>,
    transport: Option<String>,
    sid: Option<String>,
    /// `EIO` stands before `transport`, as the JavaScript client writes them.
    eio_precedes_transport: bool,
}

impl EngineIoQuery {
    fn parse(query: &str) -> Self {
        let mut parsed = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            if key == "EIO" {
                parsed.eio_precedes_transport = parsed.transport.is_none();
            }
            let slot = match &*key {
                "EIO" => &mut parsed.version,
                "transport" => &mut parsed.transport,
                "sid" => &mut parsed.sid,
                _ => continue,
            };
            slot.get_or_insert_with(|| value.into_owned());
        }
        parsed
    }
}

impl<H: SessionHandler> EngineIoServer<H> {
    /// Handles a request. If its future is dropped while a poll or a post waits, the client has disconnected and the
    /// session is closed.
    pub async fn handle_request(
        self: &Arc<Self>,
        request: Request<Incoming>,
        client: ClientInfo,
        downcast: DowncastUpgraded,
    ) -> Response<Full<Bytes>> {
        self.route_request(request, client, downcast)
            .await
            .unwrap_or_else(RequestError::into_response)
    }

    async fn route_request(
        self: &Arc<Self>,
        request: Request<Incoming>,
        mut client: ClientInfo,
        downcast: DowncastUpgraded,
    ) -> Result<Response<Full<Bytes>>, RequestError> {
        let query = EngineIoQuery::parse(request.uri().query().unwrap_or_default());
        client.supports_recovery = client_supports_recovery(&query, client.user_agent.as_deref());
        let transport = match query.transport.as_deref() {
            Some("polling") => TransportKind::Polling,
            Some("websocket") => TransportKind::WebSocket,
            _ => return Err(RequestError::UnknownTransport),
        };
        let session = match &query.sid {
            Some(sid) => Some(self.find_session(sid)?),
            None => None,
        };
        match (transport, session) {
            (TransportKind::Polling, Some(session)) => match *request.method() {
                // Boxed to keep the future of a WebSocket request small, which awaits nothing here.
                Method::GET => Box::pin(polling::handle_poll(&session)).await,
                Method::POST => Box::pin(polling::handle_post(&session, request)).await,
                _ => Err(RequestError::MethodNotAllowed),
            },
            (TransportKind::Polling, None) => {
                check_handshake(request.method(), &query)?;
                let session = self.open_session(client, TransportKind::Polling)?;
                let open_packet = self.encode_open_packet(&session, r#""websocket""#);
                Ok(responses::packets_response(open_packet.into()))
            }
            (TransportKind::WebSocket, Some(session)) => {
                websocket_handshake::start_upgrade(request, &session, downcast)
            }
            (TransportKind::WebSocket, None) => {
                check_handshake(request.method(), &query)?;
                websocket_handshake::check_websocket_request(&request)?;
                let session = self.open_session(client, TransportKind::WebSocket)?;
                websocket_handshake::open_over_websocket(request, &session, downcast)
            }
        }
    }

    fn find_session(&self, sid: &str) -> Result<Arc<EngineIoSession<H>>, RequestError> {
        let prefix = self.options().sid_prefix.as_slice();
        let Some((sid_prefix, rest)) = sid.split_at_checked(prefix.len()) else {
            return Err(RequestError::UnknownSession);
        };
        let Some((location, secret)) = EngineIoSession::<H>::parse_sid(rest) else {
            return Err(RequestError::UnknownSession);
        };
        if sid_prefix.as_bytes() != prefix {
            return Err(RequestError::SessionOnOtherNode);
        }
        self.sessions
            .get(location)
            .filter(|session| session.has_secret(&secret))
            .ok_or(RequestError::UnknownSession)
    }
}

/// Prefixes of the `User-Agent` of JavaScript clients in browsers, Node.js, Bun and Deno.
const RECOVERY_USER_AGENTS: [&str; 4] = ["Mozilla/", "node", "Bun/", "Deno/"];

/// True for the JavaScript client. If the request has no `User-Agent`, as for a WebSocket of Node.js, the order of the
/// query parameters decides.
fn client_supports_recovery(query: &EngineIoQuery, agent: Option<&str>) -> bool {
    match agent {
        Some(agent) => RECOVERY_USER_AGENTS
            .iter()
            .any(|name| agent.starts_with(name)),
        None => query.eio_precedes_transport,
    }
}

fn check_handshake(method: &Method, query: &EngineIoQuery) -> Result<(), RequestError> {
    if *method != Method::GET {
        return Err(RequestError::MethodNotAllowed);
    }
    match query.version.as_deref() {
        Some("4") => Ok(()),
        _ => Err(RequestError::UnsupportedProtocolVersion),
    }
}
