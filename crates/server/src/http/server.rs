//! Accepts TCP connections and serves HTTP/1.1 on them.
//!
//! Invariants:
//! 1. A client that does not send its headers within [`HEADER_TIMEOUT`], or reads nothing of a response for
//!    [`WRITE_TIMEOUT`], is disconnected, so that idle connections do not use up the process.
//! 2. An error on one connection, or while accepting one, affects no other connection.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use axum::http::{Request, StatusCode};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinSet, unconstrained, yield_now};
use tracing::{debug, warn};

pub use super::write_timeout::WRITE_TIMEOUT;
use super::write_timeout::{ProtocolSwitch, WriteTimeoutStream};
use crate::app_state::wait_for_shutdown;
use crate::client_address::PeerAddress;

/// Time for a client to send the headers of a request, including the pause since its previous request.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(60);
/// Approximate maximum size of the request headers. Larger ones get status 431, and the connection is closed.
pub const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Connections that are accepted before the task yields.
const ACCEPT_BATCH_SIZE: u32 = 1_024;
/// Pause after an accept failed for lack of a resource, such as open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Serves on `listener` until `shutdown` becomes true, then closes the listener and waits for open requests.
pub async fn serve_http<H, F>(
    listener: TcpListener,
    handle_request: H,
    shutdown: watch::Receiver<bool>,
) where
    H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let serve =
        |stream, peer| serve_connection(stream, peer, handle_request.clone(), shutdown.clone());
    accept_until(listener, wait_for_shutdown(shutdown.clone()), serve).await;
}

/// Accepts connections until `stop` completes, then closes `listener` and waits for the connections.
pub(crate) async fn accept_until<F>(
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    connection: impl Fn(TcpStream, PeerAddress) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut open = JoinSet::new();
    let mut stop = pin!(stop);
    {
        // Created once, not per iteration: a connection that ends would otherwise cancel the pause of
        // `accept_with_retry`.
        let mut next = pin!(accept_with_retry(&listener));
        let mut in_a_row = 0_u32;
        // Accepts all waiting connections before it serves the new ones: the backlog of the kernel is small, and a
        // client that finds it full retries much later.
        let accepting = unconstrained(async {
            loop {
                tokio::select! {
                    () = &mut stop => break,
                    (stream, peer) = &mut next => {
                        next.set(accept_with_retry(&listener));
                        open.spawn(connection(stream, peer));
                        in_a_row = in_a_row.wrapping_add(1);
                        if in_a_row.is_multiple_of(ACCEPT_BATCH_SIZE) {
                            yield_now().await;
                        }
                    }
                    Some(_) = open.join_next() => {}
                }
            }
        });
        accepting.await;
    }
    drop(listener);
    while open.join_next().await.is_some() {}
}

async fn serve_connection<H, F>(
    stream: TcpStream,
    peer: PeerAddress,
    handle_request: H,
    shutdown: watch::Receiver<bool>,
) where
    H: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response>,
{
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES);
    let switches = ProtocolSwitch::default();
    let stream = TokioIo::new(WriteTimeoutStream::new(stream, switches.clone()));
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let (response, switches) = (handle_request(request), switches.clone());
        async move {
            let response = response.await;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                switches.set();
            }
            Ok::<_, Infallible>(response)
        }
    });
    let served = builder.serve_connection(stream, service);
    let mut served = pin!(served.with_upgrades());
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = wait_for_shutdown(shutdown) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection failed");
    }
}

async fn accept_with_retry(listener: &TcpListener) -> (TcpStream, PeerAddress) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, PeerAddress(peer.ip())),
            Err(error) if is_client_error(&error) => {
                debug!(
                    %error,
                    "client closed the connection before it was accepted"
                );
            }
            Err(error) => {
                warn!(%error, "cannot accept connections; retrying in 500 ms");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

fn is_client_error(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}
