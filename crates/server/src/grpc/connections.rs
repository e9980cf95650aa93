//! HTTP/2 connections.
//!
//! Always true:
//! 1. A client that does not begin to speak HTTP/2 within [`PREFACE`], or does not answer a ping within [`PING_ANSWER`], is
//!    cut.
//! 2. What a client does not read stays within [`UNREAD`] per stream; then its streams wait.

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

use super::gate::AuthenticatingService;
use crate::address::PeerAddress;
use crate::app::AppState;
use crate::http::connections::accept_until;

/// How long a client may take to begin.
pub const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between pings, by which clients that are gone are found.
pub const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long a client may take to answer one.
pub const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Calls and streams of one connection at a time; further ones wait at the client.
const MAX_STREAMS: u32 = 1_000;
/// Bytes of the headers of a request; most of it the token.
const MAX_HEADER_LIST_BYTES: u32 = 16 * 1024;
/// Bytes of one request that may be on the way, …
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
/// … and of all of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;
/// Bytes of a stream that wait for a client to read, beyond the message that passes the limit.
const MAX_SEND_BUFFER_BYTES: usize = 64 * 1024;

/// What an HTTP/2 client says first.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Serves on `listener` until the server stops, then closes it and waits for the open calls.
pub(super) async fn serve(listener: TcpListener, gate: AuthenticatingService, app: AppState) {
    let each = |stream, peer| connection(stream, peer, gate.clone(), app.clone());
    accept_until(listener, app.wait_for_shutdown(), each).await;
}

async fn connection(
    stream: TcpStream,
    peer: PeerAddress,
    gate: AuthenticatingService,
    app: AppState,
) {
    let greeted = tokio::select! {
        () = app.wait_for_shutdown() => return,
        greeted = timeout(PREFACE_TIMEOUT, read_preface(stream)) => greeted,
    };
    let Ok(Some(stream)) = greeted else {
        debug!("client did not send the HTTP/2 preface");
        return;
    };
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let gate = gate.clone();
        async move { Ok::<_, Infallible>(gate.call_with_timeout(request).await) }
    });
    let mut served = pin!(builder().serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = app.wait_for_shutdown() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
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

/// The connection, once the client has said hello; none if it said something else.
async fn read_preface(mut stream: TcpStream) -> Option<impl AsyncRead + AsyncWrite + Unpin> {
    let mut said = [0; HTTP2_PREFACE.len()];
    let mut heard = 0;
    while heard < said.len() {
        match stream.read(&mut said[heard..]).await {
            Ok(0) | Err(_) => return None,
            Ok(more) => heard += more,
        }
        if said[..heard] != HTTP2_PREFACE[..heard] {
            return None;
        }
    }
    let (from, to) = stream.into_split();
    Some(tokio::io::join(HTTP2_PREFACE.chain(from), to))
}
