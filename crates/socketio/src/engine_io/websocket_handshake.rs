//! The WebSocket handshake over HTTP (RFC 6455, section 4.2).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::{Method, Request, Response, StatusCode};

use super::SessionHandler;
use super::connection::WebSocketConnection;
use super::encoded_frame::EncodedFrame;
use super::responses::RequestError;
use super::session::EngineIoSession;
use super::transport_state::{TransportKind, UpgradeState};
use crate::DowncastUpgraded;
use crate::websocket::encode_text;

/// GUID of RFC 6455, from which the server computes `Sec-WebSocket-Accept`.
const WEBSOCKET_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Checks that the request is a WebSocket handshake.
pub(super) fn check_websocket_request(request: &Request<Incoming>) -> Result<(), RequestError> {
    let headers = request.headers();
    let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let is_key = key.is_some_and(|key| STANDARD.decode(key).is_ok_and(|key| key.len() == 16));
    let is_version = headers
        .get(SEC_WEBSOCKET_VERSION)
        .is_some_and(|version| version == "13");
    let is_handshake = *request.method() == Method::GET
        && header_contains_token(headers, &CONNECTION, "upgrade")
        && header_contains_token(headers, &UPGRADE, "websocket")
        && is_key;
    match (is_handshake, is_version) {
        (true, true) => Ok(()),
        (true, false) => Err(RequestError::UnsupportedWebSocketVersion),
        (false, _) => Err(RequestError::BadRequest),
    }
}

fn header_contains_token(headers: &HeaderMap, header: &HeaderName, token: &str) -> bool {
    headers.get_all(header).iter().any(|value| {
        let value = value.to_str().unwrap_or_default();
        value
            .split(',')
            .any(|it| it.trim().eq_ignore_ascii_case(token))
    })
}

/// Starts the WebSocket of a new session. The caller has checked the request.
pub(super) fn open_over_websocket<H: SessionHandler>(
    request: Request<Incoming>,
    session: &Arc<EngineIoSession<H>>,
    downcast: DowncastUpgraded,
) -> Result<Response<Full<Bytes>>, RequestError> {
    let open_packet = session.engine().encode_open_packet(session, "");
    session.send_frame(&Arc::new(EncodedFrame::from_bytes(encode_text(
        &open_packet,
    ))));
    Ok(switch_protocols(request, session, downcast, false))
}

/// Starts the upgrade of a polling session: the WebSocket has to pass the probe before it takes over.
pub(super) fn start_upgrade<H: SessionHandler>(
    request: Request<Incoming>,
    session: &Arc<EngineIoSession<H>>,
    downcast: DowncastUpgraded,
) -> Result<Response<Full<Bytes>>, RequestError> {
    check_websocket_request(&request)?;
    {
        let mut transport = session.transport_state.lock();
        let can_upgrade = transport.active == TransportKind::Polling
            && transport.upgrade == UpgradeState::None
            && transport.close_mode.is_none();
        if !can_upgrade {
            return Err(RequestError::BadRequest);
        }
        transport.upgrade = UpgradeState::Requested;
    }
    Ok(switch_protocols(request, session, downcast, true))
}

fn switch_protocols<H: SessionHandler>(
    mut request: Request<Incoming>,
    session: &Arc<EngineIoSession<H>>,
    downcast: DowncastUpgraded,
    is_upgrade_probe: bool,
) -> Response<Full<Bytes>> {
    let on_upgrade = hyper::upgrade::on(&mut request);
    let connection =
        WebSocketConnection::new(Arc::clone(session), on_upgrade, downcast, is_upgrade_probe);
    session.engine().spawn(connection);
    let mut sha = sha1_smol::Sha1::new();
    let key = request.headers().get(SEC_WEBSOCKET_KEY);
    sha.update(key.map(HeaderValue::as_bytes).unwrap_or_default());
    sha.update(WEBSOCKET_GUID);
    let accept = STANDARD.encode(sha.digest().bytes());
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}
