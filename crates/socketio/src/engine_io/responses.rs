//! Responses to HTTP requests.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::{Response, StatusCode};

/// Error response to a request, with the error codes of Engine.IO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestError {
    UnknownTransport,
    UnknownSession,
    SessionOnOtherNode,
    MethodNotAllowed,
    BadRequest,
    UnsupportedProtocolVersion,
    UnsupportedWebSocketVersion,
    TooLarge,
    ServerStopping,
    TooManySessions,
    TooManySessionsFromAddress,
}

impl RequestError {
    fn status_code_message(self) -> (StatusCode, u8, &'static str) {
        const BAD: StatusCode = StatusCode::BAD_REQUEST;
        match self {
            Self::UnknownTransport => (BAD, 0, "Transport unknown"),
            Self::UnknownSession => (BAD, 1, "Session ID unknown"),
            Self::SessionOnOtherNode => (
                BAD,
                1,
                "Session ID unknown: it belongs to another node; use sticky routing or transports: ['websocket']",
            ),
            Self::MethodNotAllowed => (BAD, 2, "Bad handshake method"),
            Self::BadRequest => (BAD, 3, "Bad request"),
            Self::UnsupportedProtocolVersion => (BAD, 5, "Unsupported protocol version"),
            Self::UnsupportedWebSocketVersion => (
                StatusCode::UPGRADE_REQUIRED,
                3,
                "Unsupported WebSocket version: use 13",
            ),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, 3, "Payload too large"),
            Self::ServerStopping => (StatusCode::SERVICE_UNAVAILABLE, 4, "The server is stopping"),
            Self::TooManySessions => (StatusCode::SERVICE_UNAVAILABLE, 4, "Too many connections"),
            Self::TooManySessionsFromAddress => (
                StatusCode::TOO_MANY_REQUESTS,
                4,
                "Too many connections from this address",
            ),
        }
    }

    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let (status, code, message) = self.status_code_message();
        let body = format!(r#"{{"code":{code},"message":"{message}"}}"#);
        let mut response = response_with_body(body.into(), "application/json");
        *response.status_mut() = status;
        let headers = response.headers_mut();
        match self {
            Self::UnsupportedWebSocketVersion => {
                headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            }
            Self::ServerStopping | Self::TooManySessions | Self::TooManySessionsFromAddress => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
            }
            _ => {}
        }
        response
    }
}

/// Response with packets.
pub(super) fn packets_response(body: Bytes) -> Response<Full<Bytes>> {
    response_with_body(body, "text/plain; charset=UTF-8")
}

fn response_with_body(body: Bytes, content_type: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
