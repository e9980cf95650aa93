//! Tests of the server as a library: the test provides the listener and the shutdown.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use parlor_chat::database::{self, DatabaseUrl};
use parlor_embedded::SystemClock;
use parlor_server::auth::Authenticator;
use parlor_server::config::{self, ConfigSources};
use parlor_server::http::server;
use parlor_server::lifecycle::{self, ServerInit};
use parlor_testkit::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::support::{embedded, get, run_in};

#[tokio::test]
async fn shutdown_flushes_pending_writes() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut store = embedded(&data).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let http = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let config = config::load(&ConfigSources::default()).unwrap().config;
    let identity = Authenticator::load(&config.auth, &data, Arc::new(SystemClock));
    let database = lifecycle::open_database(database::DatabaseOptions {
        url: DatabaseUrl::Sqlite(data.join("parlor.db")),
        ..config.database.clone()
    });
    let start = ServerInit {
        database: database.await.unwrap(),
        http_listener: listener,
        grpc_listener: None,
        authenticator: identity.await.unwrap(),
        config,
        store: Ok(store.clone()),
    };
    let shutdown = async move { stopped.await.unwrap() };
    let server = tokio::spawn(lifecycle::run_server(start, shutdown));
    eventually("the node has joined the cluster", async || {
        get(&http, "/readyz").await.unwrap().0 == 200
    })
    .await;

    redis::cmd("SET")
        .arg("lastseen:alice")
        .arg("now")
        .query_async::<()>(&mut store)
        .await
        .unwrap();
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
    assert!(
        get(&http, "/healthz").await.is_err(),
        "the server still listens after the shutdown"
    );
    let shown = run_in(
        folder.path(),
        &["keys", "show", "lastseen:alice", "--json"],
        &[],
    )
    .await;
    assert_eq!(shown.json()["value"], "now");
    // Dropped only now, because dropping the last handle flushes as well.
    drop(store);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_finishes_its_headers_is_disconnected() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_stop, stopping) = watch::channel(false);
    let handle = async |_| Response::default();
    tokio::spawn(server::serve_http(listener, handle, stopping));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        .await
        .unwrap();
    let mut rest = Vec::new();
    let closed = timeout(server::HEADER_TIMEOUT * 3, stream.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "the connection is still open");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_response_is_disconnected() {
    const LENGTH: usize = 32 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_stop, stopping) = watch::channel(false);
    let handle = async |_| vec![0_u8; LENGTH].into_response();
    tokio::spawn(server::serve_http(listener, handle, stopping));
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    // After the response has begun, the paused clock advances only while all tasks are idle.
    stream.readable().await.unwrap();
    sleep(server::WRITE_TIMEOUT * 2).await;
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.len() < LENGTH, "the response was complete");
}
