//! HTTP/2 connections.
//!
//! Invariants:
//! 1. A client that does not send the HTTP/2 preface within [`PREFACE_TIMEOUT`], or does not answer a ping within
//!    [`PING_TIMEOUT`], is disconnected.
//! 2. At most [`MAX_SEND_BUFFER_BYTES`] per stream wait for a client that does not read; then the stream waits.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tonic::codegen::http::Request;
use tracing::debug;

use super::service::AuthenticatingService;
use crate::app_state::AppState;
use crate::client_address::PeerAddress;
use crate::http::server::accept_until;

/// Time for a client to send the connection preface.
pub const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of the pings that detect lost clients.
pub const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Time for a client to answer a ping.
pub const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Concurrent calls and streams of one connection; the client queues further ones.
const MAX_STREAMS: u32 = 1_000;
/// Maximum bytes of the headers of a request; most of them are the token.
const MAX_HEADER_LIST_BYTES: u32 = 16 * 1024;
/// Flow control window of one request.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
/// Flow control window of all requests of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;
/// Bytes of a stream that wait for a client to read. The last message may exceed this.
const MAX_SEND_BUFFER_BYTES: usize = 64 * 1024;

/// Connection preface of HTTP/2.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Serves on `listener` until the shutdown begins, then closes it and waits for open calls.
pub(super) async fn serve(listener: TcpListener, service: AuthenticatingService, app: AppState) {
    let serve = |stream, peer| serve_connection(stream, peer, service.clone(), app.clone());
    accept_until(listener, app.wait_for_shutdown(), serve).await;
}

async fn serve_connection(
    stream: TcpStream,
    peer: PeerAddress,
    service: AuthenticatingService,
    app: AppState,
) {
    let preface = tokio::select! {
        () = app.wait_for_shutdown() => return,
        preface = timeout(PREFACE_TIMEOUT, read_preface(stream)) => preface,
    };
    let Ok(Some(stream)) = preface else {
        debug!("client did not send the HTTP/2 preface");
        return;
    };
    let handler = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.call_with_timeout(request).await) }
    });
    let mut served = pin!(builder().serve_connection(TokioIo::new(stream), handler));
    let result = tokio::select! {
        result = served.as_mut() => result,
        () = app.wait_for_shutdown() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = result {
        debug!(%error, "connection failed");
    }
}

fn builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_LIST_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(MAX_SEND_BUFFER_BYTES);
    builder
}

/// Returns the connection after the client has sent the preface; `None` if it sent anything else.
async fn read_preface(mut stream: TcpStream) -> Option<impl AsyncRead + AsyncWrite + Unpin> {
    let mut buffer = [0; HTTP2_PREFACE.len()];
    let mut received = 0;
    while received < buffer.len() {
        match stream.read(&mut buffer[received..]).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => received += count,
        }
        if buffer[..received] != HTTP2_PREFACE[..received] {
            return None;
        }
    }
    let (from, to) = stream.into_split();
    Some(tokio::io::join(HTTP2_PREFACE.chain(from), to))
}
