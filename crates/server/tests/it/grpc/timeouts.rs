//! Tests of clients that violate HTTP/2 or do not respond.

use std::sync::Arc;
use std::time::Duration;

use parlor_embedded::SystemClock;
use parlor_server::app_state::AppState;
use parlor_server::auth::{AuthConfig, AuthSettings, Authenticator};
use parlor_server::config::{self, ConfigSources};
use parlor_server::grpc::proto::v1::user_status::Status::Online;
use parlor_server::grpc::proto::v1::{GetUserStatusRequest, UserStatus};
use parlor_server::grpc::{self, PING_INTERVAL, PING_TIMEOUT, PREFACE_TIMEOUT};
use parlor_server::lifecycle::StartupState;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tonic::Code;

use super::client::{Client, SECRET, SERVICE, assert_refused};

/// Starts a server without a store in this process. It stops when the sender is dropped.
async fn serve() -> (std::net::SocketAddr, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let written = AuthSettings {
        secret: SECRET,
        ..AuthSettings::default()
    };
    let config = AuthConfig::new(&written).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let identity = Authenticator::load(&config, folder.path(), Arc::new(SystemClock));
    let identity = Arc::new(identity.await.unwrap());
    let (_, store) = watch::channel(Err("not open".into()));
    let (_, database) = watch::channel(Err("not open".into()));
    let (_, chat) = watch::channel(Err("not open".into()));
    let (stop, stopping) = watch::channel(false);
    let progress = StartupState {
        store,
        database,
        chat,
    };
    let config = config::load(&ConfigSources::default()).unwrap().config;
    let app = AppState::new(identity, progress, stopping, &config);
    tokio::spawn(grpc::serve(listener, app));
    (address, stop)
}

/// Sends these bytes and nothing more; returns the time until the server closes the connection.
async fn time_to_close(said: &[u8], most: Duration) -> Duration {
    let (address, _stop) = serve().await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let began = Instant::now();
    stream.write_all(said).await.unwrap();
    let mut rest = Vec::new();
    let cut = timeout(most * 2, stream.read_to_end(&mut rest)).await;
    assert!(cut.is_ok(), "the connection is still open");
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_http2_preface_times_out() {
    let said = b"PRI * HTTP/2.0\r\n";
    assert!(time_to_close(said, PREFACE_TIMEOUT).await >= PREFACE_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_not_http2_is_closed_at_once() {
    let said = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    assert!(time_to_close(said, PREFACE_TIMEOUT).await < PREFACE_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_grpc_client_that_answers_no_http2_ping_is_closed() {
    let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let no_settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let said = [hello.as_slice(), &no_settings].concat();
    let most = PING_INTERVAL + PING_TIMEOUT;
    assert!(time_to_close(&said, most).await >= PING_TIMEOUT);
}

#[tokio::test]
async fn a_call_without_a_request_message_times_out_with_request_timeout() {
    let (address, _stop) = serve().await;
    let alice = Client::of("alice", address).await;
    // From here on the paused clock advances whenever all tasks are idle.
    tokio::time::pause();
    let answer =
        alice.call_without_message::<GetUserStatusRequest, UserStatus>(SERVICE, "GetUserStatus");
    let refused = answer.await.unwrap_err();
    assert_refused(&refused, Code::DeadlineExceeded, "request_timeout");
}

#[tokio::test]
async fn before_the_store_is_open_reads_are_degraded_and_writes_are_rejected() {
    let (address, _stop) = serve().await;
    let alice = Client::of("alice", address).await;
    assert!(alice.get("alice").await.unwrap().degraded);
    let refused = alice.set(Online).await.unwrap_err();
    assert_refused(&refused, Code::Unavailable, "store_unavailable");
}
