//! The answers to requests.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::{Response, StatusCode};

/// Why a request is not taken, in the words of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    UnknownTransport,
    UnknownSession,
    ForeignSession,
    BadMethod,
    BadRequest,
    BadVersion,
    BadWebSocketVersion,
    TooLarge,
    Stopped,
    Full,
    TooManyOfAddress,
}

impl Refusal {
    fn parts(self) -> (StatusCode, u8, &'static str) {
        const BAD: StatusCode = StatusCode::BAD_REQUEST;
        match self {
            Self::UnknownTransport => (BAD, 0, "Transport unknown"),
            Self::UnknownSession => (BAD, 1, "Session ID unknown"),
            Self::ForeignSession => (
                BAD,
                1,
                "Session ID unknown: it belongs to another node; use sticky routing or transports: ['websocket']",
            ),
            Self::BadMethod => (BAD, 2, "Bad handshake method"),
            Self::BadRequest => (BAD, 3, "Bad request"),
            Self::BadVersion => (BAD, 5, "Unsupported protocol version"),
            Self::BadWebSocketVersion => (
                StatusCode::UPGRADE_REQUIRED,
                3,
                "Unsupported WebSocket version: use 13",
            ),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, 3, "Payload too large"),
            Self::Stopped => (StatusCode::SERVICE_UNAVAILABLE, 4, "The server is stopping"),
            Self::Full => (StatusCode::SERVICE_UNAVAILABLE, 4, "Too many connections"),
            Self::TooManyOfAddress => (
                StatusCode::TOO_MANY_REQUESTS,
                4,
                "Too many connections from this address",
            ),
        }
    }

    pub(super) fn answer(self) -> Response<Full<Bytes>> {
        let (status, code, message) = self.parts();
        let body = format!(r#"{{"code":{code},"message":"{message}"}}"#);
        let mut response = with_body(body.into(), "application/json");
        *response.status_mut() = status;
        let headers = response.headers_mut();
        match self {
            Self::BadWebSocketVersion => {
                headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            }
            Self::Stopped | Self::Full | Self::TooManyOfAddress => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
            }
            _ => {}
        }
        response
    }
}

/// Packets.
pub(super) fn text(body: Bytes) -> Response<Full<Bytes>> {
    with_body(body, "text/plain; charset=UTF-8")
}

fn with_body(body: Bytes, kind: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
