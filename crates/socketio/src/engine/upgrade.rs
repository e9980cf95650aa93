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

use super::Above;
use super::answer::Refusal;
use super::connection::Connection;
use super::out::Transport;
use super::parcel::Parcel;
use super::session::Session;
use crate::TakeBack;
use crate::frame::write;

/// By which a server shows that it has understood the key.
const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Is this a request for a WebSocket?
pub(super) fn check(request: &Request<Incoming>) -> Result<(), Refusal> {
    let headers = request.headers();
    let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let is_key = key.is_some_and(|key| STANDARD.decode(key).is_ok_and(|key| key.len() == 16));
    let is_version = headers
        .get(SEC_WEBSOCKET_VERSION)
        .is_some_and(|version| version == "13");
    let is_good = *request.method() == Method::GET
        && names(headers, &CONNECTION, "upgrade")
        && names(headers, &UPGRADE, "websocket")
        && is_key;
    match (is_good, is_version) {
        (true, true) => Ok(()),
        (true, false) => Err(Refusal::BadWebSocketVersion),
        (false, _) => Err(Refusal::BadRequest),
    }
}

fn names(headers: &HeaderMap, header: &HeaderName, token: &str) -> bool {
    headers.get_all(header).iter().any(|value| {
        let value = value.to_str().unwrap_or_default();
        value
            .split(',')
            .any(|one| one.trim().eq_ignore_ascii_case(token))
    })
}

/// A session that begins with its WebSocket. The request was checked.
pub(super) fn from_the_start<U: Above>(
    request: Request<Incoming>,
    session: &Arc<Session<U>>,
    take_back: TakeBack,
) -> Result<Response<Full<Bytes>>, Refusal> {
    let greeting = session.engine().greeting(session, "");
    session.push(&Arc::new(Parcel::of(write::text(&greeting))));
    Ok(switch(request, session, take_back, false))
}

/// A WebSocket that wants to take over a session from polling.
pub(super) fn of_polling<U: Above>(
    request: Request<Incoming>,
    session: &Arc<Session<U>>,
    take_back: TakeBack,
) -> Result<Response<Full<Bytes>>, Refusal> {
    check(&request)?;
    {
        let mut out = session.out().lock();
        let is_taken = out.transport == Transport::WebSocket || out.probing;
        if is_taken || out.end.is_some() {
            return Err(Refusal::BadRequest);
        }
        out.probing = true;
    }
    Ok(switch(request, session, take_back, true))
}

fn switch<U: Above>(
    mut request: Request<Incoming>,
    session: &Arc<Session<U>>,
    take_back: TakeBack,
    is_probe: bool,
) -> Response<Full<Bytes>> {
    let on = hyper::upgrade::on(&mut request);
    let connection = Connection::new(Arc::clone(session), on, take_back, is_probe);
    session.engine().spawn(connection);
    let mut sha = sha1_smol::Sha1::new();
    let key = request.headers().get(SEC_WEBSOCKET_KEY);
    sha.update(key.map(HeaderValue::as_bytes).unwrap_or_default());
    sha.update(MAGIC);
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
