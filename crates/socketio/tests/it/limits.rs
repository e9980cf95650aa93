//! Limits that protect the server and other clients from a single client.

use std::io::ErrorKind;
use std::time::Duration;

use parlor_socketio::{EncodedEvent, SocketIoOptions};
use tokio::io::AsyncReadExt as _;

use super::clients::{RawConnection, RawWebSocket, ReceivedMessage, text};
use super::recording_server::{eventually, open_polling_session, request, start_test_server};

const POLLING: &str = "/socket.io/?EIO=4&transport=polling";

#[tokio::test]
async fn a_client_that_stops_reading_is_closed_and_others_keep_receiving() {
    let host = start_test_server(SocketIoOptions {
        max_send_queue_bytes: 256 * 1024,
        ..SocketIoOptions::default()
    })
    .await;
    let (slow, _) = RawWebSocket::connect(host.address, "").await;
    let (mut quick, _) = RawWebSocket::connect(host.address, "").await;
    let filling = format!("\"{}\"", "x".repeat(16 * 1024));
    let frame = EncodedEvent::new("big", filling.as_bytes());
    let mut sent = 0;
    while host.server.stats().send_queue_overflows_total == 0 {
        host.server.for_each_socket(|socket| socket.send(&frame));
        sent += 1;
        assert!(sent < 10_000, "the slow client is aborted");
        assert!(quick.packet().await.starts_with("42[\"big\""));
        assert!(host.server.stats().send_queue_bytes <= 300 * 1024);
    }
    host.wait_for_call("disconnected SendQueueOverflow").await;
    assert_eq!(host.server.socket_count(), 1);
    quick.send_text(r#"421["echo"]"#).await;
    assert_eq!(quick.packet().await, "431[]");
    let mut stream = slow.connection.into_stream();
    let end = stream.read_to_end(&mut Vec::new()).await;
    assert_eq!(
        end.map_err(|error| error.kind()),
        Err(ErrorKind::ConnectionReset),
        "the kernel drops its send buffer"
    );
}

#[tokio::test]
async fn a_polling_client_that_never_polls_is_closed_when_its_send_queue_is_full() {
    let host = start_test_server(SocketIoOptions {
        max_send_queue_bytes: 10_000,
        ..SocketIoOptions::default()
    })
    .await;
    let sid = open_polling_session(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    let filling = format!("\"{}\"", "x".repeat(1_000));
    let frame = EncodedEvent::new("big", filling.as_bytes());
    for _ in 0..20 {
        host.server.for_each_socket(|socket| socket.send(&frame));
    }
    host.wait_for_call("disconnected SendQueueOverflow").await;
    eventually("the session is removed", || {
        host.server.stats().open_sessions == 0
    })
    .await;
    let (status, _) = request(host.address, "GET", &sid, "").await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn sessions_are_limited_per_address_and_in_total() {
    let one = start_test_server(SocketIoOptions {
        max_sessions: 1,
        ..SocketIoOptions::default()
    })
    .await;
    let other = start_test_server(SocketIoOptions {
        max_sessions_per_address: 1,
        ..SocketIoOptions::default()
    })
    .await;
    for (host, expected) in [(&one, 503), (&other, 429)] {
        let (ws, _) = RawWebSocket::connect(host.address, "").await;
        let mut connection = RawConnection::open(host.address).await;
        let response = connection.request("GET", POLLING, b"").await;
        assert_eq!(response.status, expected);
        assert!(response.body.contains(r#""code":"#), "{response:?}");
        assert_eq!(response.header("retry-after"), Some("5"));
        drop(ws);
        eventually("the session is removed", || {
            host.server.stats().open_sessions == 0
        })
        .await;
        open_polling_session(host.address).await;
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_ends_the_session() {
    let host = start_test_server(SocketIoOptions {
        max_payload: 100,
        ..SocketIoOptions::default()
    })
    .await;
    let sid = open_polling_session(host.address).await;
    let (status, _) = request(host.address, "POST", &sid, &"4".repeat(101)).await;
    assert_eq!(status, 413);
    let (status, _) = request(host.address, "GET", &sid, "").await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn a_client_that_stops_answering_pings_is_disconnected() {
    let host = start_test_server(SocketIoOptions {
        ping_interval: Duration::from_millis(100),
        ping_timeout: Duration::from_millis(50),
        ..SocketIoOptions::default()
    })
    .await;
    let (mut ws, _) = RawWebSocket::connect(host.address, "").await;
    for _ in 0..3 {
        assert_eq!(ws.next().await, text("2"));
        ws.send_text("3").await;
    }
    assert_eq!(ws.next().await, text("2"));
    host.wait_for_call("disconnected PingTimeout").await;
    assert_eq!(
        after_pings(&mut ws).await,
        ReceivedMessage::Close(Some(1000))
    );
}

/// Returns the next message that is no ping: after a delay, the server may send one more ping.
async fn after_pings(ws: &mut RawWebSocket) -> ReceivedMessage {
    loop {
        match ws.next().await {
            ReceivedMessage::Text(ping) if ping == "2" => {}
            other => return other,
        }
    }
}

#[tokio::test]
async fn a_session_without_a_namespace_is_closed_after_the_connect_timeout() {
    let host = start_test_server(SocketIoOptions {
        connect_timeout: Duration::from_millis(50),
        ping_interval: Duration::from_millis(500),
        ..SocketIoOptions::default()
    })
    .await;
    let mut ws = RawWebSocket::open(host.address, "/socket.io/").await;
    assert_eq!(
        after_pings(&mut ws).await,
        ReceivedMessage::Close(Some(1000))
    );
    assert_eq!(ws.next().await, ReceivedMessage::End);
    assert!(host.handler().calls().is_empty());
}

#[tokio::test]
async fn a_sid_of_another_node_gets_a_different_error_than_an_unknown_sid() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let sid = open_polling_session(host.address)
        .await
        .replace("sid=AAA", "sid=BBB");
    let (status, body) = request(host.address, "GET", &sid, "").await;
    assert_eq!(status, 400);
    assert!(body.contains("another node"), "{body}");
    let (status, body) = request(host.address, "GET", "&sid=nonsense", "").await;
    assert_eq!(status, 400);
    assert_eq!(body, r#"{"code":1,"message":"Session ID unknown"}"#);
}

#[tokio::test]
async fn an_incomplete_post_body_times_out() {
    let host = start_test_server(SocketIoOptions {
        ping_interval: Duration::from_millis(100),
        ping_timeout: Duration::from_millis(50),
        ..SocketIoOptions::default()
    })
    .await;
    let sid = open_polling_session(host.address).await;
    let mut connection = RawConnection::open(host.address).await;
    let head = format!("POST {POLLING}{sid} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n40");
    connection.write(head.as_bytes()).await;
    assert_eq!(connection.read_response().await.status, 400);
    eventually("the session is removed", || {
        host.server.stats().open_sessions == 0
    })
    .await;
}

#[tokio::test]
async fn shutdown_aborts_clients_that_do_not_read() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let (slow, _) = RawWebSocket::connect(host.address, "").await;
    let filling = format!("\"{}\"", "x".repeat(16 * 1024));
    let frame = EncodedEvent::new("big", filling.as_bytes());
    // Until the kernel's send buffer is full.
    while host.server.stats().send_queue_bytes < 900_000 {
        host.server.for_each_socket(|socket| socket.send(&frame));
        tokio::task::yield_now().await;
        assert_eq!(
            host.server.stats().send_queue_overflows_total,
            0,
            "below the limit"
        );
    }
    let sid = open_polling_session(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    let timeout = Duration::from_millis(20);
    tokio::join!(host.server.shutdown(timeout), host.server.shutdown(timeout));
    eventually("all sessions are removed", || {
        host.server.stats().open_sessions == 0
    })
    .await;
    let lines = host.handler().calls();
    let ends = lines
        .iter()
        .filter(|line| *line == "disconnected ServerShutdown");
    assert_eq!(ends.count(), 2);
    drop(slow);
}
