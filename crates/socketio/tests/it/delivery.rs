//! Guarantees to a handler: order, back-pressure, one `on_disconnected` per `on_connected`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parlor_socketio::{DisconnectReason, EncodedEvent, Socket, SocketIoOptions};
use parlor_testkit::encode_client_frame;

use super::clients::{RawWebSocket, ReceivedMessage};
use super::recording_server::{
    RecordingHandler, TestServer, eventually, open_polling_session, recovery_enabled, request,
    start_test_server,
};

#[tokio::test]
async fn packets_are_handled_in_order_after_the_previous_handler_future() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let (mut ws, _) = RawWebSocket::connect(host.address, "").await;
    ws.send_text(r#"421["slow"]"#).await;
    ws.send_text(r#"422["echo",{"a":1},[2]]"#).await;
    ws.send_text(r#"423["slow"]"#).await;
    ws.send_text(r#"424["echo"]"#).await;
    host.wait_for_call("slow").await;
    assert!(!host.handler().calls().contains(&"echo".to_owned()));
    host.handler().slow_event_permits.add_permits(1);
    assert_eq!(ws.packet().await, r#"431["slow"]"#);
    assert_eq!(ws.packet().await, r#"432[{"a":1},[2]]"#);
    host.handler().slow_event_permits.add_permits(1);
    assert_eq!(ws.packet().await, r#"433["slow"]"#);
    assert_eq!(ws.packet().await, r#"434[]"#);
    assert_eq!(
        host.handler().calls(),
        ["connect", "connected", "slow", "echo", "slow", "echo"]
    );
}

#[tokio::test]
async fn a_full_inbox_stops_reading_without_losing_packets() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let (ws, _) = RawWebSocket::connect(host.address, "").await;
    let (mut reading, mut writing) = ws.connection.into_stream().into_split();
    let writer = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        let filling = "x".repeat(4_000);
        for id in 0..2_000 {
            let name = if id == 0 { "slow" } else { "echo" };
            let text = format!(r#"42{id}["{name}","{filling}"]"#);
            let frame = encode_client_frame(0x81, text.as_bytes());
            writing.write_all(&frame).await.unwrap();
        }
        writing
    });
    host.wait_for_call("slow").await;
    // All tasks share this thread; the writer could finish within this number of polls.
    for _ in 0..20_000 {
        tokio::task::yield_now().await;
    }
    assert!(!writer.is_finished(), "the inbox must not take all 8 MB");
    host.handler().slow_event_permits.add_permits(1);
    let mut all = Vec::new();
    while !all.ends_with(b"x\"]") || !all.windows(7).rev().take(5_000).any(|it| it == b"431999[") {
        use tokio::io::AsyncReadExt as _;
        let mut piece = [0; 65_536];
        let count = reading.read(&mut piece).await.unwrap();
        assert_ne!(count, 0);
        all.extend_from_slice(&piece[..count]);
    }
    let text = String::from_utf8_lossy(&all).into_owned();
    let ids: Vec<u32> = text
        .split("[\"")
        .filter_map(|before| {
            let digits = before.rsplit(|it: char| !it.is_ascii_digit()).next()?;
            digits.strip_prefix("43")?.parse().ok()
        })
        .collect();
    assert!(ids.is_sorted() && ids.len() == 2_000, "{ids:?}");
}

#[tokio::test]
async fn a_disconnect_during_connect_calls_on_connected_and_on_disconnected_once() {
    let host = start_test_server(SocketIoOptions::default()).await;
    host.handler().hold_connects.store(true, Ordering::SeqCst);
    let mut ws = RawWebSocket::open(host.address, "/socket.io/").await;
    ws.send_text("40").await;
    host.wait_for_call("connect").await;
    drop(ws);
    eventually("the session ends", || {
        host.server.stats().open_sessions == 0
    })
    .await;
    host.handler().slow_event_permits.add_permits(1);
    host.wait_for_call("disconnected TransportClosed").await;
    assert_eq!(
        host.handler().calls(),
        ["connect", "connected", "disconnected TransportClosed"]
    );
    assert_eq!(host.server.socket_count(), 0);
}

#[tokio::test]
async fn a_connect_that_takes_too_long_ends_the_connection() {
    let host = start_test_server(SocketIoOptions {
        connect_timeout: Duration::from_millis(50),
        ..SocketIoOptions::default()
    })
    .await;
    host.handler().hold_connects.store(true, Ordering::SeqCst);
    let mut ws = RawWebSocket::open(host.address, "/socket.io/").await;
    ws.send_text("40").await;
    assert_eq!(ws.next().await, ReceivedMessage::Close(Some(1000)));
    assert_eq!(ws.next().await, ReceivedMessage::End);
    assert_eq!(host.handler().calls(), ["connect"]);
}

#[tokio::test]
async fn a_panicking_handler_future_closes_only_its_own_session() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let (mut other, _) = RawWebSocket::connect(host.address, "").await;
    let (mut ws, _) = RawWebSocket::connect(host.address, "").await;
    ws.send_text(r#"42["break"]"#).await;
    assert_eq!(ws.next().await, ReceivedMessage::End);
    host.wait_for_call("disconnected ServerDisconnect").await;
    other.send_text(r#"427["echo",1]"#).await;
    assert_eq!(other.packet().await, "437[1]");
}

#[tokio::test]
async fn queued_events_are_delivered_before_a_server_disconnect() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let (mut ws, _) = RawWebSocket::connect(host.address, "").await;
    ws.send_text(r#"42["leave"]"#).await;
    ws.send_text(r#"42["echo"]"#).await;
    assert_eq!(ws.packet().await, r#"42["last",1]"#);
    assert_eq!(ws.packet().await, "41");
    assert_eq!(ws.next().await, ReceivedMessage::Close(Some(1000)));
    assert_eq!(ws.next().await, ReceivedMessage::End);
    host.wait_for_call("disconnected ServerDisconnect").await;
    assert!(!host.handler().calls().contains(&"echo".to_owned()));
}

#[tokio::test]
async fn a_polling_client_is_disconnected_with_what_was_sent_before() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let sid = open_polling_session(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    request(host.address, "POST", &sid, "42[\"leave\"]").await;
    let (status, body) = request(host.address, "GET", &sid, "").await;
    assert_eq!(status, 200);
    let packets: Vec<&str> = body.split('\u{1e}').collect();
    assert_eq!(&packets[1..], ["42[\"last\",1]", "41", "1"]);
    let (status, _) = request(host.address, "GET", &sid, "").await;
    assert_eq!(status, 400);
    host.wait_for_call("disconnected ServerDisconnect").await;
}

#[tokio::test]
async fn a_poll_response_never_exceeds_max_payload() {
    let host = start_test_server(SocketIoOptions {
        max_payload: 1_000,
        ..SocketIoOptions::default()
    })
    .await;
    let sid = open_polling_session(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    let filling = format!("\"{}\"", "x".repeat(400));
    for number in 0..5 {
        let frame = EncodedEvent::new(&format!("n{number}"), filling.as_bytes());
        host.server.for_each_socket(|socket| socket.send(&frame));
    }
    let mut packets = Vec::new();
    while packets.len() < 6 {
        let (_, body) = request(host.address, "GET", &sid, "").await;
        assert!(body.len() <= 1_000, "{}", body.len());
        packets.extend(body.split('\u{1e}').map(str::to_owned));
    }
    for (number, packet) in packets[1..].iter().enumerate() {
        assert!(packet.starts_with(&format!("42[\"n{number}\"")), "{packet}");
    }
}

#[tokio::test]
async fn shutdown_flushes_send_queues_and_disconnects_every_socket() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let (mut ws, _) = RawWebSocket::connect(host.address, "").await;
    let sid = open_polling_session(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    host.wait_for_call("connected").await;
    eventually("both clients are connected", || {
        host.server.socket_count() == 2
    })
    .await;
    host.server.stop_accepting();
    let (status, body) = request(host.address, "GET", "", "").await;
    assert_eq!(status, 503);
    assert!(body.contains("stopping"), "{body}");
    host.broadcast("bye");
    let server = std::sync::Arc::clone(&host.server);
    let closing = tokio::spawn(async move { server.shutdown(Duration::from_secs(20)).await });
    assert_eq!(ws.packet().await, r#"42["bye",1]"#);
    assert_eq!(ws.next().await, ReceivedMessage::Close(Some(1001)));
    assert_eq!(ws.next().await, ReceivedMessage::End);
    drop(ws);
    let (_, body) = request(host.address, "GET", &sid, "").await;
    assert!(body.ends_with("\u{1e}42[\"bye\",1]\u{1e}1"), "{body}");
    closing.await.unwrap();
    assert_eq!(host.server.stats().open_sessions, 0);
    let ends = host.handler().calls();
    let ends = ends
        .iter()
        .filter(|line| *line == "disconnected ServerShutdown");
    assert_eq!(ends.count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_connected_is_called_before_on_detached_or_on_disconnected() {
    for (options, end) in [
        (SocketIoOptions::default(), "disconnected TransportClosed"),
        (recovery_enabled(), "detached TransportClosed"),
    ] {
        let host = start_test_server(options).await;
        host.handler().hold_connects.store(true, Ordering::SeqCst);
        host.handler()
            .block_on_connected
            .store(true, Ordering::SeqCst);
        let mut ws = RawWebSocket::open(host.address, "/socket.io/").await;
        ws.send_text("40").await;
        host.wait_for_call("connect").await;
        host.handler().slow_event_permits.add_permits(1);
        assert!(ws.packet().await.starts_with("40{"));
        drop(ws);
        eventually("the session is removed", || {
            host.server.stats().open_sessions == 0
        })
        .await;
        host.handler()
            .block_on_connected
            .store(false, Ordering::SeqCst);
        host.wait_for_call(end).await;
        assert_eq!(host.handler().calls(), ["connect", "connected", end]);
    }
}

#[tokio::test]
async fn a_post_and_a_websocket_blocked_on_a_full_inbox_both_resume() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let sid = open_polling_session(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    let echoes: String = (0..80)
        .map(|id| format!("\u{1e}42{id}[\"echo\"]"))
        .collect();
    let body = format!("42[\"slow\"]{echoes}");
    let (address, query) = (host.address, sid.clone());
    let posting = tokio::spawn(async move { request(address, "POST", &query, &body).await });
    host.wait_for_call("slow").await;
    let target = format!("/socket.io/?EIO=4&transport=websocket{sid}");
    let mut ws = RawWebSocket::try_open(host.address, &target).await.unwrap();
    ws.send_text("2probe").await;
    assert_eq!(
        ws.packet().await,
        "3probe",
        "the probe does not wait for the inbox"
    );
    ws.send_text("5").await;
    assert!(
        ws.packet().await.starts_with("40{"),
        "the WebSocket has taken over"
    );
    ws.send_text(r#"4280["echo"]"#).await;
    host.handler().slow_event_permits.add_permits(1);
    let mut answers = Vec::new();
    for _ in 0..=80 {
        answers.push(ws.packet().await);
    }
    // The order in which POST and WebSocket resume is not defined.
    answers.sort_unstable();
    let mut expected: Vec<_> = (0..=80).map(|id| format!("43{id}[]")).collect();
    expected.sort_unstable();
    assert_eq!(answers, expected);
    assert_eq!(posting.await.unwrap(), (200, "ok".to_owned()));
}

#[tokio::test]
async fn a_queued_disconnect_packet_ends_the_socket_as_client_disconnect() {
    let host = start_test_server(recovery_enabled()).await;
    let (mut ws, _) = RawWebSocket::connect(host.address, "").await;
    ws.send_text(r#"42["slow"]"#).await;
    ws.send_text("41").await;
    drop(ws);
    host.wait_for_call("disconnected ClientDisconnect").await;
    assert_eq!(host.server.stats().detached_sockets, 0);
}

#[tokio::test]
async fn queued_events_are_handled_before_on_disconnected() {
    for (packet, end) in [
        (None, "disconnected TransportClosed"),
        (Some("41"), "disconnected ClientDisconnect"),
        (Some("1"), "disconnected ClientDisconnect"),
    ] {
        let host = start_test_server(SocketIoOptions::default()).await;
        let (mut ws, _) = RawWebSocket::connect(host.address, "").await;
        for event in ["slow", "echo", "note"] {
            ws.send_text(&format!("42[\"{event}\"]")).await;
        }
        if let Some(packet) = packet {
            ws.send_text(packet).await;
        }
        drop(ws);
        wait_for_session_end(&host).await;
        assert_eq!(host.handler().calls(), ["connect", "connected", "slow"]);
        host.handler().slow_event_permits.add_permits(1);
        host.wait_for_call(end).await;
        let all = ["connect", "connected", "slow", "echo", "note", end];
        assert_eq!(host.handler().calls(), all);
    }
}

/// Connects, sends these events, of which the first one blocks, and closes the connection.
async fn send_events_and_disconnect(host: &TestServer, events: &[&str]) -> serde_json::Value {
    let (mut ws, hello) = RawWebSocket::connect(host.address, "").await;
    for event in events {
        ws.send_text(&format!("42[\"{event}\"]")).await;
    }
    drop(ws);
    wait_for_session_end(host).await;
    hello
}

async fn wait_for_session_end(host: &TestServer) {
    let is_closed = || host.server.stats().open_sessions == 0;
    eventually("the session ends", is_closed).await;
}

#[tokio::test]
async fn queued_events_of_a_closed_polling_session_are_handled() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let sid = open_polling_session(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    let body = "42[\"slow\"]\u{1e}42[\"echo\"]\u{1e}1";
    request(host.address, "POST", &sid, body).await;
    wait_for_session_end(&host).await;
    host.handler().slow_event_permits.add_permits(1);
    let end = "disconnected ClientDisconnect";
    host.wait_for_call(end).await;
    let all = ["connect", "connected", "slow", "echo", end];
    assert_eq!(host.handler().calls(), all);
}

#[tokio::test]
async fn queued_events_are_handled_after_a_ping_timeout() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let (mut ws, _) = RawWebSocket::connect(host.address, "").await;
    for event in ["slow", "echo"] {
        ws.send_text(&format!("42[\"{event}\"]")).await;
    }
    host.wait_for_call("slow").await;
    tokio::time::pause();
    wait_for_session_end(&host).await;
    tokio::time::resume();
    assert_eq!(host.handler().calls(), ["connect", "connected", "slow"]);
    host.handler().slow_event_permits.add_permits(1);
    let end = "disconnected PingTimeout";
    host.wait_for_call(end).await;
    let all = ["connect", "connected", "slow", "echo", end];
    assert_eq!(host.handler().calls(), all);
}

#[tokio::test]
async fn a_socket_is_detached_after_its_queued_events_are_handled() {
    let host = start_test_server(recovery_enabled()).await;
    send_events_and_disconnect(&host, &["slow", "echo"]).await;
    assert_eq!(host.server.stats().detached_sockets, 0);
    host.handler().slow_event_permits.add_permits(1);
    host.wait_for_call("detached TransportClosed").await;
    let all = [
        "connect",
        "connected",
        "slow",
        "echo",
        "detached TransportClosed",
    ];
    assert_eq!(host.handler().calls(), all);
    eventually("the socket is detached", || {
        host.server.stats().detached_sockets == 1
    })
    .await;
}

#[tokio::test]
async fn queued_events_are_dropped_after_a_server_disconnect() {
    for options in [SocketIoOptions::default(), recovery_enabled()] {
        for disconnects in [false, true] {
            let host = start_test_server(options.clone()).await;
            let (mut ws, _) = RawWebSocket::connect(host.address, "").await;
            for event in ["slow", "leave", "echo"] {
                ws.send_text(&format!("42[\"{event}\"]")).await;
            }
            host.wait_for_call("slow").await;
            if disconnects {
                drop(ws);
                wait_for_session_end(&host).await;
            }
            host.handler().slow_event_permits.add_permits(1);
            let end = "disconnected ServerDisconnect";
            host.wait_for_call(end).await;
            let all = ["connect", "connected", "slow", "leave", end];
            assert_eq!(host.handler().calls(), all);
        }
    }
}

#[tokio::test]
async fn a_panic_while_draining_the_inbox_ends_the_socket() {
    let host = start_test_server(SocketIoOptions::default()).await;
    send_events_and_disconnect(&host, &["slow", "break", "echo"]).await;
    host.handler().slow_event_permits.add_permits(1);
    let end = "disconnected TransportClosed";
    host.wait_for_call(end).await;
    let all = ["connect", "connected", "slow", "break", end];
    assert_eq!(host.handler().calls(), all);
}

#[tokio::test]
async fn draining_the_inbox_stops_after_the_drain_timeout() {
    let host = start_test_server(SocketIoOptions::default()).await;
    send_events_and_disconnect(&host, &["slow", "echo"]).await;
    tokio::time::pause();
    let end = "disconnected TransportClosed";
    host.wait_for_call(end).await;
    host.handler().slow_event_permits.add_permits(1);
    assert_eq!(
        host.handler().calls(),
        ["connect", "connected", "slow", end]
    );
}

#[tokio::test]
async fn a_client_can_recover_its_socket_while_its_inbox_is_drained() {
    let host = start_test_server(recovery_enabled()).await;
    let hello = send_events_and_disconnect(&host, &["slow", "echo"]).await;
    let auth = format!("{{\"pid\":{}}}", hello["pid"]);
    let (mut ws, again) = RawWebSocket::connect(host.address, &auth).await;
    assert_eq!(again["sid"], hello["sid"]);
    host.handler().slow_event_permits.add_permits(1);
    ws.send_text(r#"42["note"]"#).await;
    host.wait_for_call("note").await;
    let all = [
        "connect",
        "connected",
        "slow",
        "detached ReplacedByReconnect",
        "recover",
        "note",
    ];
    assert_eq!(
        host.handler().calls(),
        all,
        "the queued echo belonged to the closed session"
    );
}

#[tokio::test]
async fn shutdown_does_not_wait_for_inboxes_of_closed_sessions() {
    let host = start_test_server(SocketIoOptions::default()).await;
    send_events_and_disconnect(&host, &["slow", "echo"]).await;
    host.server.stop_accepting();
    host.server.shutdown(Duration::from_secs(5)).await;
    let all = [
        "connect",
        "connected",
        "slow",
        "disconnected ServerShutdown",
    ];
    assert_eq!(host.handler().calls(), all);
    host.handler().slow_event_permits.add_permits(1);
    assert_eq!(host.server.socket_count(), 0);
}

#[tokio::test]
async fn a_socket_disconnected_while_draining_cannot_be_recovered() {
    let host = start_test_server(recovery_enabled()).await;
    let hello = send_events_and_disconnect(&host, &["slow", "echo"]).await;
    let disconnect = |socket: &Arc<Socket<RecordingHandler>>| {
        socket.disconnect(DisconnectReason::ServerDisconnect);
    };
    host.server.for_each_socket(disconnect);
    let auth = format!("{{\"pid\":{}}}", hello["pid"]);
    let (_ws, again) = RawWebSocket::connect(host.address, &auth).await;
    assert_ne!(again["sid"], hello["sid"]);
    assert_eq!(host.server.socket_count(), 1);
}
