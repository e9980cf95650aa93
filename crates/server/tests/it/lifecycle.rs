//! The library's own door: a test owns the listener and the end.

use parlor_server::lifecycle::{self, Opening};
use parlor_store::Options;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::support::{embedded, get, run_in};

#[tokio::test]
async fn stopping_flushes_what_was_written_last() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut store = embedded(&data).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let http = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let options = Options {
        data: Some(data.clone()),
        ..Options::default()
    };
    let shutdown = async move { stopped.await.unwrap() };
    let server = tokio::spawn(lifecycle::run(
        listener,
        options,
        Opening::Open(store.clone()),
        shutdown,
    ));
    assert_eq!(get(&http, "/readyz").await.unwrap().0, 200);

    redis::cmd("SET")
        .arg("lastseen:alice")
        .arg("now")
        .query_async::<()>(&mut store)
        .await
        .unwrap();
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
    drop(store);

    assert!(
        get(&http, "/healthz").await.is_err(),
        "nobody listens after the end"
    );
    let shown = run_in(
        folder.path(),
        &["keys", "show", "lastseen:alice", "--json"],
        &[],
    )
    .await;
    assert_eq!(shown.json()["value"], "now");
}
