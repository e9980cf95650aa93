//! Connection state recovery: a client reconnects after a lost connection.

use std::sync::atomic::Ordering;
use std::time::Duration;

use parlor_socketio::{DisconnectReason, RecoveryOptions, SocketIoOptions};
use serde_json::Value;

use super::clients::{RawWebSocket, ReceivedMessage};
use super::recording_server::{
    RECOVERY, TestServer, eventually, recovery_enabled, start_test_server, with_recovery,
};

/// Returns the offset at the end of an event.
fn offset(event: &str) -> String {
    let event: Value = serde_json::from_str(event.strip_prefix("42").unwrap()).unwrap();
    event
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned()
}

fn recovery_auth(hello: &Value, offset: Option<&str>) -> String {
    let mut auth = serde_json::json!({ "token": "t", "pid": hello["pid"] });
    if let Some(offset) = offset {
        auth["offset"] = offset.into();
    }
    auth.to_string()
}

async fn drop_connection(host: &TestServer, ws: RawWebSocket) {
    drop(ws);
    eventually("the socket is detached", || {
        host.server.stats().detached_sockets == 1
    })
    .await;
}

#[tokio::test]
async fn a_client_without_recovery_support_gets_no_offset_and_is_not_held() {
    let host = start_test_server(recovery_enabled()).await;
    let mut ws =
        RawWebSocket::open_with_query(host.address, "/socket.io/", "transport=websocket&EIO=4")
            .await;
    let hello = ws.connect_namespace("").await;
    assert!(hello["pid"].is_null(), "{hello}");
    let (mut other, _) = RawWebSocket::connect(host.address, "").await;
    host.broadcast("one");
    assert_eq!(ws.packet().await, r#"42["one",1]"#);
    assert!(other.packet().await.starts_with(r#"42["one",1,""#));
    drop(ws);
    host.wait_for_call("disconnected TransportClosed").await;
    assert_eq!(host.server.stats().detached_sockets, 0);
}

#[tokio::test]
async fn a_reconnecting_client_recovers_its_socket_and_the_missed_events() {
    let host = start_test_server(recovery_enabled()).await;
    let (mut ws, hello) = RawWebSocket::connect(host.address, "").await;
    host.broadcast("one");
    host.broadcast("two");
    let one = ws.packet().await;
    drop_connection(&host, ws).await;
    host.broadcast("three");
    let (mut ws, again) =
        RawWebSocket::connect(host.address, &recovery_auth(&hello, Some(&offset(&one)))).await;
    assert_eq!(again, hello, "the same socket");
    assert!(ws.packet().await.starts_with(r#"42["two",1,"#));
    assert!(ws.packet().await.starts_with(r#"42["three",1,"#));
    host.broadcast("four");
    let four = ws.packet().await;
    assert!(four.starts_with(r#"42["four",1,"#));
    assert_eq!(host.server.stats().recovered_sockets_total, 1);

    drop_connection(&host, ws).await;
    let (mut ws, again) =
        RawWebSocket::connect(host.address, &recovery_auth(&hello, Some(&offset(&four)))).await;
    assert_eq!(again, hello);
    ws.send_text(r#"421["echo"]"#).await;
    assert_eq!(ws.packet().await, "431[]", "no event was missed");
    let lost = "detached TransportClosed";
    assert_eq!(
        host.handler().calls(),
        [
            "connect",
            "connected",
            lost,
            "recover",
            lost,
            "recover",
            "echo"
        ]
    );
}

#[tokio::test]
async fn a_client_without_an_offset_can_recover() {
    let host = start_test_server(recovery_enabled()).await;
    let (ws, hello) = RawWebSocket::connect(host.address, "").await;
    drop_connection(&host, ws).await;
    host.broadcast("one");
    let (mut ws, again) = RawWebSocket::connect(host.address, &recovery_auth(&hello, None)).await;
    assert_eq!(again, hello);
    assert!(ws.packet().await.starts_with(r#"42["one",1,"#));
}

#[tokio::test]
async fn a_client_that_missed_more_than_the_replay_buffer_gets_a_new_socket() {
    let host = start_test_server(recovery_enabled()).await;
    let (mut ws, hello) = RawWebSocket::connect(host.address, "").await;
    host.broadcast("first");
    let first = offset(&ws.packet().await);
    drop_connection(&host, ws).await;
    for _ in 0..5 {
        host.broadcast("more");
    }
    let (mut ws, again) =
        RawWebSocket::connect(host.address, &recovery_auth(&hello, Some(&first))).await;
    assert_ne!(again["sid"], hello["sid"]);
    assert_ne!(again["pid"], hello["pid"]);
    ws.send_text(r#"421["echo"]"#).await;
    assert_eq!(ws.packet().await, "431[]");
    host.wait_for_call("disconnected ReplacedByReconnect").await;
    assert_eq!(host.server.socket_count(), 1);
    assert_eq!(host.server.stats().recovered_sockets_total, 0);
}

#[tokio::test]
async fn an_unknown_pid_or_offset_is_connected_anew() {
    let host = start_test_server(recovery_enabled()).await;
    let (mut ws, hello) = RawWebSocket::connect(host.address, "").await;
    host.broadcast("one");
    let one = offset(&ws.packet().await);
    drop_connection(&host, ws).await;
    let mut foreign = hello.clone();
    let pid = hello["pid"].as_str().unwrap();
    foreign["pid"] = format!("{}AAAA", &pid[..pid.len() - 4]).into();
    for foreign in [
        foreign,
        serde_json::json!({"pid": 7}),
        serde_json::json!({"pid": "x"}),
    ] {
        let (ws, again) =
            RawWebSocket::connect(host.address, &recovery_auth(&foreign, Some(&one))).await;
        assert_ne!(again["sid"], hello["sid"]);
        drop(ws);
    }
    assert!(
        !host
            .handler()
            .calls()
            .contains(&"disconnected ReplacedByReconnect".to_owned())
    );
    let (_ws, again) =
        RawWebSocket::connect(host.address, &recovery_auth(&hello, Some("zzzz"))).await;
    assert_ne!(again["sid"], hello["sid"]);
    host.wait_for_call("disconnected ReplacedByReconnect").await;
}

#[tokio::test]
async fn a_socket_cannot_be_recovered_after_a_client_disconnect() {
    let host = start_test_server(recovery_enabled()).await;
    for packet in ["41", "1"] {
        let (mut ws, hello) = RawWebSocket::connect(host.address, "").await;
        ws.send_text(packet).await;
        eventually("the socket has ended", || host.server.socket_count() == 0).await;
        assert_eq!(host.server.stats().detached_sockets, 0);
        let (ws, again) = RawWebSocket::connect(host.address, &recovery_auth(&hello, None)).await;
        assert_ne!(again["sid"], hello["sid"]);
        let mut ws = ws;
        ws.send_text("41").await;
        eventually("the socket has ended", || host.server.socket_count() == 0).await;
    }
}

#[tokio::test]
async fn a_client_can_recover_before_the_server_notices_the_lost_connection() {
    let host = start_test_server(recovery_enabled()).await;
    let (mut first, hello) = RawWebSocket::connect(host.address, "").await;
    host.broadcast("one");
    let one = offset(&first.packet().await);
    host.broadcast("two");
    let (mut second, again) =
        RawWebSocket::connect(host.address, &recovery_auth(&hello, Some(&one))).await;
    assert_eq!(again, hello);
    assert!(second.packet().await.starts_with(r#"42["two",1,"#));
    assert!(first.packet().await.starts_with(r#"42["two",1,"#));
    assert_eq!(first.next().await, ReceivedMessage::Close(Some(1000)));
    second.send_text(r#"421["echo"]"#).await;
    assert_eq!(second.packet().await, "431[]");
    let calls = host.handler().calls();
    assert_eq!(
        calls,
        [
            "connect",
            "connected",
            "detached ReplacedByReconnect",
            "recover",
            "echo"
        ]
    );
}

#[tokio::test]
async fn a_detached_socket_ends_once_when_the_recovery_window_is_over() {
    let host = start_test_server(SocketIoOptions {
        ping_interval: Duration::from_millis(250),
        recovery: Some(RecoveryOptions {
            window: Duration::from_millis(100),
            ..RECOVERY
        }),
        ..SocketIoOptions::default()
    })
    .await;
    let (ws, hello) = RawWebSocket::connect(host.address, "").await;
    drop_connection(&host, ws).await;
    host.wait_for_call("disconnected TransportClosed").await;
    assert_eq!(
        (
            host.server.socket_count(),
            host.server.stats().detached_sockets
        ),
        (0, 0)
    );
    let (_ws, again) = RawWebSocket::connect(host.address, &recovery_auth(&hello, None)).await;
    assert_ne!(again["sid"], hello["sid"]);
}

#[tokio::test]
async fn a_rejected_recovery_leaves_the_socket_detached() {
    let host = start_test_server(recovery_enabled()).await;
    let (ws, hello) = RawWebSocket::connect(host.address, "").await;
    drop_connection(&host, ws).await;
    host.handler().refuse_connects.store(true, Ordering::SeqCst);
    let mut ws = RawWebSocket::open(host.address, "/socket.io/").await;
    ws.send_text(&format!("40{}", recovery_auth(&hello, None)))
        .await;
    assert_eq!(ws.packet().await, r#"44{"message":"no"}"#);
    eventually("the socket is detached again", || {
        host.server.stats().detached_sockets == 1
    })
    .await;
    host.handler()
        .refuse_connects
        .store(false, Ordering::SeqCst);
    let (_ws, again) = RawWebSocket::connect(host.address, &recovery_auth(&hello, None)).await;
    assert_eq!(again, hello);
}

#[tokio::test]
async fn the_application_can_end_a_socket_that_is_held() {
    let host = start_test_server(SocketIoOptions {
        ping_interval: Duration::from_millis(250),
        ..recovery_enabled()
    })
    .await;
    let (ws, hello) = RawWebSocket::connect(host.address, "").await;
    drop_connection(&host, ws).await;
    host.server
        .for_each_socket(|socket| socket.disconnect(DisconnectReason::ServerDisconnect));
    host.wait_for_call("disconnected ServerDisconnect").await;
    let (_ws, again) = RawWebSocket::connect(host.address, &recovery_auth(&hello, None)).await;
    assert_ne!(again["sid"], hello["sid"]);
}

#[tokio::test]
async fn shutdown_ends_detached_sockets() {
    let host = start_test_server(recovery_enabled()).await;
    let (ws, _) = RawWebSocket::connect(host.address, "").await;
    drop_connection(&host, ws).await;
    host.server.shutdown(Duration::from_secs(1)).await;
    host.wait_for_call("disconnected ServerShutdown").await;
    assert_eq!(host.server.socket_count(), 0);
}

#[tokio::test]
async fn without_recovery_nothing_is_held_and_no_offset_is_sent() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let (mut ws, hello) = RawWebSocket::connect(host.address, "").await;
    assert!(hello.get("pid").is_none());
    host.broadcast("one");
    assert_eq!(ws.packet().await, r#"42["one",1]"#);
    drop(ws);
    host.wait_for_call("disconnected TransportClosed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_connected_socket_is_disconnected_exactly_once() {
    // More than is sent while a client is disconnected.
    let recovery = RecoveryOptions {
        max_frames: 100_000,
        max_bytes: 10_000_000,
        ..RECOVERY
    };
    let host = start_test_server(with_recovery(recovery)).await;
    let clients: Vec<_> = (0..20)
        .map(|number| tokio::spawn(run_random_client(host.address, number)))
        .collect();
    while !clients.iter().all(tokio::task::JoinHandle::is_finished) {
        host.broadcast("news");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for client in clients {
        client.await.unwrap();
    }
    host.server.shutdown(Duration::from_secs(5)).await;
    let count = |start: &str| {
        let lines = host.handler().calls();
        lines.iter().filter(|line| line.starts_with(start)).count()
    };
    let all_are_disconnected = || count("disconnected") >= count("connected");
    eventually("all sockets are disconnected", all_are_disconnected).await;
    assert_eq!(host.server.socket_count(), 0);
    assert_eq!(count("connected"), count("disconnected"));
    assert!(count("recover") > 0);
    let stats = host.server.stats();
    assert_eq!((stats.open_sessions, stats.detached_sockets), (0, 0));
}

/// Connects, disconnects in one of several ways, and recovers the socket, repeatedly.
async fn run_random_client(address: std::net::SocketAddr, number: usize) {
    let mut auth = String::new();
    for round in 0..15 {
        let (mut ws, hello) = RawWebSocket::connect(address, &auth).await;
        let last = ws.packet().await;
        match (number + round) % 5 {
            0 => ws.send_text("41").await,
            1 => ws.send_text("1").await,
            2 => ws.send_text("nonsense").await,
            // The next connection may arrive before the server notices the end of this one.
            _ => {}
        }
        auth = recovery_auth(&hello, Some(&offset(&last)));
    }
}

#[tokio::test]
async fn a_replay_larger_than_the_send_queue_gives_a_new_socket_instead_of_an_overflow() {
    const REPLAY_BYTES: usize = 2_000;
    // The same replay fits into a larger send queue.
    for (max_send_queue_bytes, recovers) in [(REPLAY_BYTES, false), (2 * REPLAY_BYTES, true)] {
        let host = start_test_server(SocketIoOptions {
            max_send_queue_bytes,
            recovery: Some(RecoveryOptions {
                max_frames: 1_000,
                max_bytes: REPLAY_BYTES,
                ..RECOVERY
            }),
            ..SocketIoOptions::default()
        })
        .await;
        let (ws, hello) = RawWebSocket::connect(host.address, "").await;
        drop_connection(&host, ws).await;
        // The replay buffer can hold them, but together with the CONNECT reply they exceed the smaller send queue.
        let sent = broadcast_bytes(&host, REPLAY_BYTES).await;
        let auth = recovery_auth(&hello, None);
        let (mut ws, again) = RawWebSocket::connect(host.address, &auth).await;
        assert_eq!(again["sid"] == hello["sid"], recovers, "{sent:?}");
        if recovers {
            for event in sent {
                assert_eq!(ws.packet().await, event);
            }
        }
        ws.send_text(r#"421["echo"]"#).await;
        assert_eq!(ws.packet().await, "431[]");
        assert_eq!(host.server.stats().send_queue_overflows_total, 0);
    }
}

/// Broadcasts events while a further one of the same size certainly fits into `bytes`. Another client reads and
/// measures them.
async fn broadcast_bytes(host: &TestServer, bytes: usize) -> Vec<String> {
    let (mut ws, _) = RawWebSocket::connect(host.address, "").await;
    let (mut events, mut size) = (Vec::new(), 0);
    loop {
        host.broadcast("n");
        let event = ws.packet().await;
        let frame_header = 2 + if event.len() > 125 { 2 } else { 0 };
        size += frame_header + event.len();
        let one_more = frame_header + event.len() + 1;
        events.push(event);
        if size + one_more > bytes {
            assert!(size <= bytes, "{size}");
            return events;
        }
    }
}

#[tokio::test]
async fn replay_buffers_are_cleared_when_the_shared_budget_is_exceeded() {
    let recovery = RecoveryOptions {
        max_total_bytes: 1_000,
        ..RECOVERY
    };
    let host = start_test_server(with_recovery(recovery)).await;
    let (ws, hello) = RawWebSocket::connect(host.address, "").await;
    drop_connection(&host, ws).await;
    let frames: Vec<_> = (0..100)
        .map(|_| host.server.encode_recoverable_event("n", b"1"))
        .collect();
    assert!(host.server.stats().replay_buffer_bytes > 1_000);
    host.server
        .for_each_socket(|socket| socket.send(&frames[0]));
    drop(frames);
    assert_eq!(host.server.stats().replay_buffer_bytes, 0);
    let (_ws, again) = RawWebSocket::connect(host.address, &recovery_auth(&hello, None)).await;
    assert_ne!(again["sid"], hello["sid"], "the replay buffer was cleared");
}
