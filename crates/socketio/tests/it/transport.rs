//! Guarantees to a handler: order, back-pressure, one `on_disconnected` per `on_connected`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parlor_socketio::{DisconnectReason, EncodedEvent, Socket, SocketIoOptions};

use super::client;
use super::raw::{
    Got, TestServer, Ws, eventually, open_polling_session, recovery_enabled, request,
    start_test_server,
};

#[tokio::test]
async fn packets_are_handled_in_order_after_the_previous_handler_future() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let (mut ws, _) = Ws::connect(host.address, "").await;
    ws.say(r#"421["slow"]"#).await;
    ws.say(r#"422["echo",{"a":1},[2]]"#).await;
    ws.say(r#"423["slow"]"#).await;
    ws.say(r#"424["echo"]"#).await;
    host.calls("slow").await;
    assert!(!host.app().calls().contains(&"echo".to_owned()));
    host.app().slow_event_permits.add_permits(1);
    assert_eq!(ws.text().await, r#"431["slow"]"#);
    assert_eq!(ws.text().await, r#"432[{"a":1},[2]]"#);
    host.app().slow_event_permits.add_permits(1);
    assert_eq!(ws.text().await, r#"433["slow"]"#);
    assert_eq!(ws.text().await, r#"434[]"#);
    assert_eq!(
        host.app().calls(),
        ["connect", "connected", "slow", "echo", "slow", "echo"]
    );
}

#[tokio::test]
async fn a_full_inbox_stops_reading_without_losing_packets() {
    let host = start_test_server(SocketIoOptions {
        max_inbox_packets: 3,
        ..SocketIoOptions::default()
    })
    .await;
    let (ws, _) = Ws::connect(host.address, "").await;
    let Ws { stream, .. } = ws;
    let (mut reading, mut writing) = stream.into_split();
    let writer = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        let filling = "x".repeat(4_000);
        for id in 0..2_000 {
            let name = if id == 0 { "slow" } else { "echo" };
            let text = format!(r#"42{id}["{name}","{filling}"]"#);
            let mut frame = vec![0x81, 0x80 | 126];
            frame.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
            frame.extend([0; 4]);
            frame.extend(text.as_bytes());
            writing.write_all(&frame).await.unwrap();
        }
        writing
    });
    host.calls("slow").await;
    // All tasks share this thread; the writer could finish within this number of polls.
    for _ in 0..20_000 {
        tokio::task::yield_now().await;
    }
    assert!(!writer.is_finished(), "the inbox must not take all 8 MB");
    host.app().slow_event_permits.add_permits(1);
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
    host.app().hold_connects.store(true, Ordering::SeqCst);
    let mut ws = Ws::open(host.address).await;
    ws.say("40").await;
    host.calls("connect").await;
    drop(ws);
    eventually("the session ends", || {
        host.server.stats().open_sessions == 0
    })
    .await;
    host.app().slow_event_permits.add_permits(1);
    host.calls("disconnected transport_closed").await;
    assert_eq!(
        host.app().calls(),
        ["connect", "connected", "disconnected transport_closed"]
    );
    assert_eq!(host.server.count(), 0);
}

#[tokio::test]
async fn a_connect_that_takes_too_long_ends_the_connection() {
    let host = start_test_server(SocketIoOptions {
        connect_timeout: Duration::from_millis(50),
        ..SocketIoOptions::default()
    })
    .await;
    host.app().hold_connects.store(true, Ordering::SeqCst);
    let mut ws = Ws::open(host.address).await;
    ws.say("40").await;
    assert_eq!(ws.next_message().await, Got::Close(1000));
    assert_eq!(ws.next_message().await, Got::End);
    assert_eq!(host.app().calls(), ["connect"]);
}

#[tokio::test]
async fn a_panicking_handler_future_closes_only_its_own_session() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let (mut other, _) = Ws::connect(host.address, "").await;
    let (mut ws, _) = Ws::connect(host.address, "").await;
    ws.say(r#"42["break"]"#).await;
    assert_eq!(ws.next_message().await, Got::End);
    host.calls("disconnected server_disconnect").await;
    other.say(r#"427["echo",1]"#).await;
    assert_eq!(other.text().await, "437[1]");
}

#[tokio::test]
async fn queued_events_are_delivered_before_a_server_disconnect() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let (mut ws, _) = Ws::connect(host.address, "").await;
    ws.say(r#"42["leave"]"#).await;
    ws.say(r#"42["echo"]"#).await;
    assert_eq!(ws.text().await, r#"42["last",1]"#);
    assert_eq!(ws.text().await, "41");
    assert_eq!(ws.next_message().await, Got::Close(1000));
    assert_eq!(ws.next_message().await, Got::End);
    host.calls("disconnected server_disconnect").await;
    assert!(!host.app().calls().contains(&"echo".to_owned()));
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
    host.calls("disconnected server_disconnect").await;
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
    let (mut ws, _) = Ws::connect(host.address, "").await;
    let sid = open_polling_session(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    host.calls("connected").await;
    eventually("both are in", || host.server.count() == 2).await;
    host.server.stop_accepting();
    let (status, body) = request(host.address, "GET", "", "").await;
    assert_eq!(status, 503);
    assert!(body.contains("stopping"), "{body}");
    host.broadcast("bye");
    let server = std::sync::Arc::clone(&host.server);
    let closing = tokio::spawn(async move { server.shutdown(Duration::from_secs(20)).await });
    assert_eq!(ws.text().await, r#"42["bye",1]"#);
    assert_eq!(ws.next_message().await, Got::Close(1001));
    assert_eq!(ws.next_message().await, Got::End);
    drop(ws);
    let (_, body) = request(host.address, "GET", &sid, "").await;
    assert!(body.ends_with("\u{1e}42[\"bye\",1]\u{1e}1"), "{body}");
    closing.await.unwrap();
    assert_eq!(host.server.stats().open_sessions, 0);
    let ends = host.app().calls();
    let ends = ends
        .iter()
        .filter(|line| *line == "disconnected server_shutdown");
    assert_eq!(ends.count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_connected_is_called_before_on_detached_or_on_disconnected() {
    for (options, end) in [
        (SocketIoOptions::default(), "disconnected transport_closed"),
        (recovery_enabled(), "detached transport_closed"),
    ] {
        let host = start_test_server(options).await;
        host.app().hold_connects.store(true, Ordering::SeqCst);
        host.app().block_on_connected.store(true, Ordering::SeqCst);
        let mut ws = Ws::open(host.address).await;
        ws.say("40").await;
        host.calls("connect").await;
        host.app().slow_event_permits.add_permits(1);
        assert!(ws.text().await.starts_with("40{"));
        drop(ws);
        eventually("the session is removed", || {
            host.server.stats().open_sessions == 0
        })
        .await;
        host.app().block_on_connected.store(false, Ordering::SeqCst);
        host.calls(end).await;
        assert_eq!(host.app().calls(), ["connect", "connected", end]);
    }
}

#[tokio::test]
async fn a_post_and_a_websocket_blocked_on_a_full_inbox_both_resume() {
    let host = start_test_server(SocketIoOptions {
        max_inbox_packets: 3,
        ..SocketIoOptions::default()
    })
    .await;
    let sid = open_polling_session(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    let echoes: String = (0..9).map(|id| format!("\u{1e}42{id}[\"echo\"]")).collect();
    let body = format!("42[\"slow\"]{echoes}");
    let (address, query) = (host.address, sid.clone());
    let posting = tokio::spawn(async move { request(address, "POST", &query, &body).await });
    host.calls("slow").await;
    let target = format!("/socket.io/?EIO=4&transport=websocket{sid}");
    let mut ws = client::RawWebSocket::try_open(host.address, &target)
        .await
        .unwrap();
    ws.say("2probe").await;
    assert_eq!(
        ws.text().await,
        "3probe",
        "the probe does not wait for the inbox"
    );
    ws.say("5").await;
    assert!(
        ws.text().await.starts_with("40{"),
        "the WebSocket has taken over"
    );
    ws.say(r#"429["echo"]"#).await;
    host.app().slow_event_permits.add_permits(1);
    let mut answers = Vec::new();
    for _ in 0..10 {
        answers.push(ws.text().await);
    }
    // The order in which POST and WebSocket resume is not defined.
    answers.sort_unstable();
    let expected: Vec<_> = (0..10).map(|id| format!("43{id}[]")).collect();
    assert_eq!(answers, expected);
    assert_eq!(posting.await.unwrap(), (200, "ok".to_owned()));
}

#[tokio::test]
async fn a_queued_disconnect_packet_ends_the_socket_as_client_disconnect() {
    let host = start_test_server(recovery_enabled()).await;
    let (mut ws, _) = Ws::connect(host.address, "").await;
    ws.say(r#"42["slow"]"#).await;
    ws.say("41").await;
    drop(ws);
    host.calls("disconnected client_disconnect").await;
    assert_eq!(host.server.stats().detached_sockets, 0);
}

#[tokio::test]
async fn queued_events_are_handled_before_on_disconnected() {
    for (goodbye, end) in [
        (None, "disconnected transport_closed"),
        (Some("41"), "disconnected client_disconnect"),
        (Some("1"), "disconnected client_disconnect"),
    ] {
        let host = start_test_server(SocketIoOptions::default()).await;
        let (mut ws, _) = Ws::connect(host.address, "").await;
        for said in ["slow", "echo", "note"] {
            ws.say(&format!("42[\"{said}\"]")).await;
        }
        if let Some(goodbye) = goodbye {
            ws.say(goodbye).await;
        }
        drop(ws);
        wait_for_session_end(&host).await;
        assert_eq!(host.app().calls(), ["connect", "connected", "slow"]);
        host.app().slow_event_permits.add_permits(1);
        host.calls(end).await;
        let all = ["connect", "connected", "slow", "echo", "note", end];
        assert_eq!(host.app().calls(), all);
    }
}

/// Connects, sends these events, of which the first one blocks, and closes the connection.
async fn send_events_and_disconnect(host: &TestServer, said: &[&str]) -> serde_json::Value {
    let (mut ws, hello) = Ws::connect(host.address, "").await;
    for said in said {
        ws.say(&format!("42[\"{said}\"]")).await;
    }
    drop(ws);
    wait_for_session_end(host).await;
    hello
}

async fn wait_for_session_end(host: &TestServer) {
    let is_gone = || host.server.stats().open_sessions == 0;
    eventually("the session ends", is_gone).await;
}

#[tokio::test]
async fn queued_events_of_a_closed_polling_session_are_handled() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let sid = open_polling_session(host.address).await;
    request(host.address, "POST", &sid, "40").await;
    let body = "42[\"slow\"]\u{1e}42[\"echo\"]\u{1e}1";
    request(host.address, "POST", &sid, body).await;
    wait_for_session_end(&host).await;
    host.app().slow_event_permits.add_permits(1);
    let end = "disconnected client_disconnect";
    host.calls(end).await;
    let all = ["connect", "connected", "slow", "echo", end];
    assert_eq!(host.app().calls(), all);
}

#[tokio::test]
async fn queued_events_are_handled_after_a_ping_timeout() {
    let host = start_test_server(SocketIoOptions::default()).await;
    let (mut ws, _) = Ws::connect(host.address, "").await;
    for said in ["slow", "echo"] {
        ws.say(&format!("42[\"{said}\"]")).await;
    }
    host.calls("slow").await;
    tokio::time::pause();
    wait_for_session_end(&host).await;
    tokio::time::resume();
    assert_eq!(host.app().calls(), ["connect", "connected", "slow"]);
    host.app().slow_event_permits.add_permits(1);
    let end = "disconnected ping_timeout";
    host.calls(end).await;
    let all = ["connect", "connected", "slow", "echo", end];
    assert_eq!(host.app().calls(), all);
}

#[tokio::test]
async fn a_socket_is_detached_after_its_queued_events_are_handled() {
    let host = start_test_server(recovery_enabled()).await;
    send_events_and_disconnect(&host, &["slow", "echo"]).await;
    assert_eq!(host.server.stats().detached_sockets, 0);
    host.app().slow_event_permits.add_permits(1);
    host.calls("detached transport_closed").await;
    let all = [
        "connect",
        "connected",
        "slow",
        "echo",
        "detached transport_closed",
    ];
    assert_eq!(host.app().calls(), all);
    eventually("it is held", || host.server.stats().detached_sockets == 1).await;
}

#[tokio::test]
async fn queued_events_are_dropped_after_a_server_disconnect() {
    for options in [SocketIoOptions::default(), recovery_enabled()] {
        for goes in [false, true] {
            let host = start_test_server(options.clone()).await;
            let (mut ws, _) = Ws::connect(host.address, "").await;
            for said in ["slow", "leave", "echo"] {
                ws.say(&format!("42[\"{said}\"]")).await;
            }
            host.calls("slow").await;
            if goes {
                drop(ws);
                wait_for_session_end(&host).await;
            }
            host.app().slow_event_permits.add_permits(1);
            let end = "disconnected server_disconnect";
            host.calls(end).await;
            let all = ["connect", "connected", "slow", "leave", end];
            assert_eq!(host.app().calls(), all);
        }
    }
}

#[tokio::test]
async fn a_panic_while_draining_the_inbox_ends_the_socket() {
    let host = start_test_server(SocketIoOptions::default()).await;
    send_events_and_disconnect(&host, &["slow", "break", "echo"]).await;
    host.app().slow_event_permits.add_permits(1);
    let end = "disconnected transport_closed";
    host.calls(end).await;
    let all = ["connect", "connected", "slow", "break", end];
    assert_eq!(host.app().calls(), all);
}

#[tokio::test]
async fn draining_the_inbox_stops_after_the_drain_timeout() {
    let host = start_test_server(SocketIoOptions::default()).await;
    send_events_and_disconnect(&host, &["slow", "echo"]).await;
    tokio::time::pause();
    let end = "disconnected transport_closed";
    host.calls(end).await;
    host.app().slow_event_permits.add_permits(1);
    assert_eq!(host.app().calls(), ["connect", "connected", "slow", end]);
}

#[tokio::test]
async fn a_client_can_recover_its_socket_while_its_inbox_is_drained() {
    let host = start_test_server(recovery_enabled()).await;
    let hello = send_events_and_disconnect(&host, &["slow", "echo"]).await;
    let back = format!("{{\"pid\":{}}}", hello["pid"]);
    let (mut ws, again) = Ws::connect(host.address, &back).await;
    assert_eq!(again["sid"], hello["sid"]);
    host.app().slow_event_permits.add_permits(1);
    ws.say(r#"42["note"]"#).await;
    host.calls("note").await;
    let all = [
        "connect",
        "connected",
        "slow",
        "detached replaced_by_reconnect",
        "recover",
        "note",
    ];
    assert_eq!(
        host.app().calls(),
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
        "disconnected server_shutdown",
    ];
    assert_eq!(host.app().calls(), all);
    host.app().slow_event_permits.add_permits(1);
    assert_eq!(host.server.count(), 0);
}

#[tokio::test]
async fn a_socket_disconnected_while_draining_cannot_be_recovered() {
    let host = start_test_server(recovery_enabled()).await;
    let hello = send_events_and_disconnect(&host, &["slow", "echo"]).await;
    let send_away =
        |socket: &Arc<Socket<()>>| socket.disconnect(DisconnectReason::ServerDisconnect);
    host.server.for_each_socket(send_away);
    let back = format!("{{\"pid\":{}}}", hello["pid"]);
    let (_ws, again) = Ws::connect(host.address, &back).await;
    assert_ne!(again["sid"], hello["sid"]);
    assert_eq!(host.server.count(), 1);
}
