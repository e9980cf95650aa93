//! Clients that do not do what they should.

use std::sync::Arc;
use std::time::Duration;

use parlor_embedded::SystemClock;
use parlor_server::app::App;
use parlor_server::config::{self, Sources};
use parlor_server::grpc::proto::v1::user_status::Status::Online;
use parlor_server::grpc::proto::v1::{GetUserStatusRequest, UserStatus};
use parlor_server::grpc::{self, PING, PING_ANSWER, PREFACE};
use parlor_server::identity::{AuthConfig, Identity, Written};
use parlor_server::lifecycle::{Opening, Progress};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tonic::Code;

use super::client::{Client, SECRET, SERVICE, assert_refused};

/// A server in this process, which has no store. It stops when the sender is dropped.
async fn serve() -> (std::net::SocketAddr, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let written = Written {
        secret: SECRET,
        ..Written::default()
    };
    let config = AuthConfig::new(&written).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::load(&config, folder.path(), Arc::new(SystemClock));
    let identity = Arc::new(identity.await.unwrap());
    let (_, store) = watch::channel(Opening::Waiting("there is none".into()));
    let (_, database) = watch::channel(Opening::Waiting("there is none".into()));
    let (_, chat) = watch::channel(Err("there is none".into()));
    let (stop, stopping) = watch::channel(false);
    let progress = Progress {
        store,
        database,
        chat,
    };
    let config = config::load(&Sources::default()).unwrap().config;
    let app = App::new(identity, progress, stopping, &config);
    tokio::spawn(grpc::serve(listener, app));
    (address, stop)
}

/// Says this and nothing more; how long it took to be cut.
async fn cut_after(said: &[u8], most: Duration) -> Duration {
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
async fn who_says_half_a_hello_is_cut() {
    let said = b"PRI * HTTP/2.0\r\n";
    assert!(cut_after(said, PREFACE).await >= PREFACE);
}

#[tokio::test(start_paused = true)]
async fn who_speaks_something_else_is_cut_at_once() {
    let said = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    assert!(cut_after(said, PREFACE).await < PREFACE);
}

#[tokio::test(start_paused = true)]
async fn who_answers_no_ping_is_cut() {
    let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let no_settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let said = [hello.as_slice(), &no_settings].concat();
    let most = PING + PING_ANSWER;
    assert!(cut_after(&said, most).await >= PING_ANSWER);
}

#[tokio::test]
async fn a_call_whose_message_never_comes_is_answered_all_the_same() {
    let (address, _stop) = serve().await;
    let alice = Client::of("alice", address).await;
    // From here on time passes whenever everybody waits.
    tokio::time::pause();
    let answer = alice.hesitate::<GetUserStatusRequest, UserStatus>(SERVICE, "GetUserStatus");
    let refused = answer.await.unwrap_err();
    assert_refused(&refused, Code::DeadlineExceeded, "request_timeout");
}

#[tokio::test]
async fn before_the_store_is_open_reads_are_guesses_and_the_rest_is_refused() {
    let (address, _stop) = serve().await;
    let alice = Client::of("alice", address).await;
    assert!(alice.get("alice").await.unwrap().degraded);
    let refused = alice.set(Online).await.unwrap_err();
    assert_refused(&refused, Code::Unavailable, "store_unavailable");
}
