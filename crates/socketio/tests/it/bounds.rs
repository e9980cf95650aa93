//! No client can take more than its share.

use std::io::ErrorKind;
use std::time::Duration;

use parlor_socketio::{Frame, Options};
use tokio::io::AsyncReadExt as _;

use super::client::Wire;
use super::raw::{Got, Ws, eventually, host, poll, request};

const POLLING: &str = "/socket.io/?EIO=4&transport=polling";

#[tokio::test]
async fn a_reader_that_stops_is_cut_and_others_are_not_disturbed() {
    let host = host(Options {
        buffer: 256 * 1024,
        ..Options::default()
    })
    .await;
    let (mut slow, _) = Ws::connect(host.address, "").await;
    let (mut quick, _) = Ws::connect(host.address, "").await;
    let filling = format!("\"{}\"", "x".repeat(16 * 1024));
    let frame = Frame::event("big", filling.as_bytes());
    let mut sent = 0;
    while host.server.figures().cut == 0 {
        host.server.for_each(|socket| socket.send(&frame));
        sent += 1;
        assert!(sent < 10_000, "the slow one is cut");
        assert!(quick.text().await.starts_with("42[\"big\""));
        assert!(host.server.figures().queued_bytes <= 300 * 1024);
    }
    host.told("disconnected flood").await;
    assert_eq!(host.server.count(), 1);
    quick.say(r#"421["echo"]"#).await;
    assert_eq!(quick.text().await, "431[]");
    let end = slow.stream.read_to_end(&mut Vec::new()).await;
    assert_eq!(
        end.map_err(|error| error.kind()),
        Err(ErrorKind::ConnectionReset),
        "the kernel keeps nothing for it"
    );
}

#[tokio::test]
async fn a_polling_client_that_fetches_nothing_is_cut() {
    let host = host(Options {
        buffer: 10_000,
        ..Options::default()
    })
    .await;
    let sid = poll(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    let filling = format!("\"{}\"", "x".repeat(1_000));
    let frame = Frame::event("big", filling.as_bytes());
    for _ in 0..20 {
        host.server.for_each(|socket| socket.send(&frame));
    }
    host.told("disconnected flood").await;
    eventually("it is gone", || host.server.figures().connections == 0).await;
    let (status, _) = request(host.address, "GET", &sid, "").await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn sessions_are_bounded_per_address_and_in_all() {
    let one = host(Options {
        most: 1,
        ..Options::default()
    })
    .await;
    let other = host(Options {
        most_per_address: 1,
        ..Options::default()
    })
    .await;
    for (host, expected) in [(&one, 503), (&other, 429)] {
        let (ws, _) = Ws::connect(host.address, "").await;
        let mut wire = Wire::open(host.address).await;
        let answer = wire.request("GET", POLLING, b"").await;
        assert_eq!(answer.status, expected);
        assert!(answer.body.contains(r#""code":"#), "{answer:?}");
        assert_eq!(answer.header("retry-after"), Some("5"));
        drop(ws);
        eventually("its place is free", || {
            host.server.figures().connections == 0
        })
        .await;
        poll(host.address).await;
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_ends_the_session() {
    let host = host(Options {
        max_payload: 100,
        ..Options::default()
    })
    .await;
    let sid = poll(host.address).await;
    let (status, _) = request(host.address, "POST", &sid, &"4".repeat(101)).await;
    assert_eq!(status, 413);
    let (status, _) = request(host.address, "GET", &sid, "").await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn a_silent_client_is_pinged_and_then_let_go() {
    let host = host(Options {
        ping_interval: Duration::from_millis(100),
        ping_timeout: Duration::from_millis(50),
        ..Options::default()
    })
    .await;
    let (mut ws, _) = Ws::connect(host.address, "").await;
    for _ in 0..3 {
        assert_eq!(ws.got().await, Got::Text("2".into()));
        ws.say("3").await;
    }
    assert_eq!(ws.got().await, Got::Text("2".into()));
    host.told("disconnected ping_timeout").await;
    assert_eq!(after_pings(&mut ws).await, Got::Close(1000));
}

/// What comes next that is no ping: a server that stood still for a while may send one more.
async fn after_pings(ws: &mut Ws) -> Got {
    loop {
        match ws.got().await {
            Got::Text(ping) if ping == "2" => {}
            other => return other,
        }
    }
}

#[tokio::test]
async fn a_client_of_no_namespace_is_let_go() {
    let host = host(Options {
        connect_timeout: Duration::from_millis(50),
        ping_interval: Duration::from_millis(500),
        ..Options::default()
    })
    .await;
    let mut ws = Ws::open(host.address).await;
    assert_eq!(after_pings(&mut ws).await, Got::Close(1000));
    assert_eq!(ws.got().await, Got::End);
    assert!(host.app().lines().is_empty());
}

#[tokio::test]
async fn a_session_of_another_node_is_told_apart_from_none() {
    let host = host(Options::default()).await;
    let sid = poll(host.address).await.replace("sid=AAA", "sid=BBB");
    let (status, body) = request(host.address, "GET", &sid, "").await;
    assert_eq!(status, 400);
    assert!(body.contains("another node"), "{body}");
    let (status, body) = request(host.address, "GET", "&sid=nonsense", "").await;
    assert_eq!(status, 400);
    assert_eq!(body, r#"{"code":1,"message":"Session ID unknown"}"#);
}

#[tokio::test]
async fn a_body_that_never_ends_is_given_up() {
    let host = host(Options {
        ping_interval: Duration::from_millis(100),
        ping_timeout: Duration::from_millis(50),
        ..Options::default()
    })
    .await;
    let sid = poll(host.address).await;
    let mut wire = Wire::open(host.address).await;
    let head = format!("POST {POLLING}{sid} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n40");
    wire.write(head.as_bytes()).await;
    assert_eq!(wire.answer().await.status, 400);
    eventually("the session is gone", || {
        host.server.figures().connections == 0
    })
    .await;
}

#[tokio::test]
async fn closing_does_not_wait_for_who_does_not_read() {
    let host = host(Options::default()).await;
    let (slow, _) = Ws::connect(host.address, "").await;
    let filling = format!("\"{}\"", "x".repeat(16 * 1024));
    let frame = Frame::event("big", filling.as_bytes());
    // Until the kernel takes no more.
    while host.server.figures().queued_bytes < 900_000 {
        host.server.for_each(|socket| socket.send(&frame));
        tokio::task::yield_now().await;
        assert_eq!(host.server.figures().cut, 0, "within the bound");
    }
    let sid = poll(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    let patience = Duration::from_millis(20);
    tokio::join!(host.server.close(patience), host.server.close(patience));
    eventually("nobody is left", || host.server.figures().connections == 0).await;
    let lines = host.app().lines();
    let ends = lines.iter().filter(|line| *line == "disconnected shutdown");
    assert_eq!(ends.count(), 2);
    drop(slow);
}
