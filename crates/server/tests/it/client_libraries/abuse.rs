//! Tests of clients that send malformed data, too much or nothing, or that do not read: they are disconnected, the
//! memory of the server stays bounded, and other clients are not affected.

use std::net::SocketAddr;
use std::time::Duration;

use parlor_testkit::{ServerProcess, SocketIoTestClient};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http::client::{call, node, ready};
use crate::tokens::user;

/// Timeout of a test step.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum growth of the server's memory during a test, in KiB.
const GROWTH: u64 = 48 * 1024;

fn address(node: &ServerProcess) -> SocketAddr {
    node.http_address()
}

async fn connect(node: &ServerProcess, name: &str) -> SocketIoTestClient {
    let auth = json!({ "token": user(name), "deviceId": name });
    let client = SocketIoTestClient::connect(address(node), &auth).await;
    client.unwrap_or_else(|error| panic!("{name}: {error:?}"))
}

/// Checks that a well-behaved client gets its acknowledgement.
async fn is_served(client: &mut SocketIoTestClient) {
    let nothing = json!({});
    let beat = timeout(TEST_TIMEOUT, client.emit_with_ack("heartbeat", &nothing));
    let beat = beat.await.unwrap().unwrap();
    assert_eq!(beat["ok"], true, "{beat}");
}

/// Resident memory of the server, in KiB.
fn resident(node: &ServerProcess) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.unwrap().parse().unwrap()
}

/// Waits until the server has closed a connection.
async fn closed(client: &mut SocketIoTestClient) {
    let closed = timeout(TEST_TIMEOUT, async {
        while client.next_event().await.is_ok() {}
    });
    closed.await.expect("the server closes the connection");
}

/// Opens a raw WebSocket connection.
async fn upgraded(node: &ServerProcess) -> TcpStream {
    let mut stream = TcpStream::connect(address(node)).await.unwrap();
    let request = "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\
        Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Waits until a connection is closed and returns the bytes before that.
async fn ended(mut stream: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A connection that the server closes with unread input is reset.
    let read = timeout(TEST_TIMEOUT, stream.read_to_end(&mut all)).await;
    let _ = read.expect("the server closes the connection");
    all
}

#[tokio::test]
async fn malformed_packets_close_only_their_own_connection() {
    let node = ready(node()).await;
    let mut alice = connect(&node, "alice").await;
    for rubbish in [
        "",
        "9",
        "hello",
        "4",
        "49",
        "42",
        "42[",
        "42[]",
        "42[1]",
        "420{}",
        "42{\"a\":1}",
        "451-[\"x\"]",
        "40/other,",
        "43",
        "431{",
        "40{",
        "\u{1e}",
        "2probe",
        "5",
        "42[\"connect\"]",
    ] {
        let mut other = connect(&node, "bob").await;
        // The server answers or ignores a valid packet and closes the connection after an invalid one.
        let _ = other.send_packet(rubbish).await;
        let goes_on = timeout(TEST_TIMEOUT, other.emit_with_ack("heartbeat", &json!({}))).await;
        assert!(
            goes_on.is_ok(),
            "{rubbish:?}: no acknowledgement, and the connection stays open"
        );
        is_served(&mut alice).await;
    }
    // Not a WebSocket frame, no mask, reserved bits, a continuation without a start, a control frame that is too long,
    // text that is not UTF-8.
    for bytes in [
        &b"\x00\xff\xfe\x01rubbish"[..],
        b"\x81\x02hi",
        b"\xf1\x80\0\0\0\0",
        b"\x80\x80\0\0\0\0",
        b"\x89\xfe\0\x7e\0\0\0\0",
        b"\x81\x82\0\0\0\0\xff\xff",
    ] {
        let mut stream = upgraded(&node).await;
        stream.write_all(bytes).await.unwrap();
        ended(stream).await;
        is_served(&mut alice).await;
    }
}

#[tokio::test]
async fn an_oversized_frame_is_rejected_by_its_header() {
    let node = ready(node()).await;
    let before = resident(&node);
    let mut alice = connect(&node, "alice").await;
    for _ in 0..50 {
        let mut stream = upgraded(&node).await;
        // The header announces 1 GiB, and the first bytes follow.
        let header = [&[0x81, 0xff][..], &(1_u64 << 30).to_be_bytes(), &[0; 4]].concat();
        stream.write_all(&header).await.unwrap();
        let _ = stream.write_all(&vec![b'x'; 100_000]).await;
        ended(stream).await;
    }
    is_served(&mut alice).await;
    assert!(resident(&node) < before + GROWTH);
}

#[tokio::test]
async fn a_client_that_exceeds_the_event_rate_gets_an_error_and_is_then_closed() {
    let slow = node().env("PARLOR_GATEWAY__EVENTS", "1");
    let node = ready(slow.env("PARLOR_GATEWAY__EVENT_BURST", "10")).await;
    let mut alice = connect(&node, "alice").await;
    let mut flood = connect(&node, "bob").await;
    let beat = json!({});
    let rejection = timeout(TEST_TIMEOUT, async {
        loop {
            let ack = flood.emit_with_ack("heartbeat", &beat).await.unwrap();
            if ack["ok"] != true {
                return ack["error"].clone();
            }
        }
    });
    let error = rejection
        .await
        .expect("an event above the rate gets an error");
    assert_eq!(error["code"], "rate_limited", "{error}");
    assert!(error["retryAfterMs"].is_u64(), "{error}");
    // Far more events than the rate allows; the connection may close before all are sent.
    for _ in 0..1_000 {
        let _ = flood.emit("heartbeat", &beat).await;
    }
    closed(&mut flood).await;
    is_served(&mut alice).await;
    // The server soon stops reading from a client that sends events and never reads the acknowledgements.
    let before = resident(&node);
    let mut deaf = connect(&node, "slow").await;
    let test_request = async { while deaf.send_packet("421[\"history\",{}]").await.is_ok() {} };
    let _ = timeout(Duration::from_secs(2), test_request).await;
    is_served(&mut alice).await;
    assert!(resident(&node) < before + GROWTH);
}

#[tokio::test]
async fn silent_websockets_and_unanswered_pings_are_closed() {
    let quick = node()
        .env("PARLOR_GATEWAY__HANDSHAKE_TIMEOUT", "5s")
        .env("PARLOR_GATEWAY__PING_INTERVAL", "1s")
        .env("PARLOR_GATEWAY__PING_TIMEOUT", "3s");
    let node = ready(quick).await;
    // A WebSocket without a CONNECT packet.
    ended(upgraded(&node).await).await;
    // A connected socket that does not answer pings.
    let mut silent = upgraded(&node).await;
    let auth = format!("40{}", json!({ "token": user("bob") }));
    let mut frame = vec![0x81, 0x80 | 126];
    frame.extend((auth.len() as u16).to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(auth.as_bytes());
    silent.write_all(&frame).await.unwrap();
    let received = String::from_utf8_lossy(&ended(silent).await).into_owned();
    assert!(received.contains("40{\"sid\""), "{received}");
    is_served(&mut connect(&node, "alice").await).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_does_not_delay_other_members() {
    let options = node()
        .env("PARLOR_GATEWAY__BUFFER", "262144")
        .env("PARLOR_GATEWAY__EVENTS", "10000")
        .env("PARLOR_LIMITS__MESSAGES", "10000");
    let node = ready(options).await;
    let create = call("POST", "/v1/conversations").by(&user("alice"));
    let create = create.json(json!({ "id": "lunch", "kind": "group", "members": ["bob", "slow"] }));
    create.at(&node).await.created();
    let join = json!({ "conversationId": "lunch" });
    let (mut alice, mut bob) = (connect(&node, "alice").await, connect(&node, "bob").await);
    let mut slow = connect(&node, "slow").await;
    for client in [&mut alice, &mut bob, &mut slow] {
        let joined = client
            .emit_with_ack("conversation:join", &join)
            .await
            .unwrap();
        assert_eq!(joined["ok"], true, "{joined}");
    }
    let before = resident(&node);
    // In total more than the kernel and the send queue hold for a client that does not read.
    let content = "x".repeat(8_000);
    let message = json!({ "conversationId": "lunch", "content": content });
    let sent = 1_500;
    let sending = async {
        for seq in 1..=sent {
            let ack = alice.emit_with_ack("message:send", &message).await.unwrap();
            assert_eq!(ack["message"]["seq"], seq, "{}", ack["error"]);
            alice.take_queued_events();
        }
    };
    let reading = async {
        for seq in 1..=sent {
            let next = timeout(TEST_TIMEOUT, bob.next_event_named("message:new")).await;
            assert_eq!(next.unwrap().unwrap()["seq"], seq);
        }
    };
    tokio::join!(sending, reading);
    closed(&mut slow).await;
    assert!(resident(&node) < before + GROWTH);
    // The client reconnects and receives the missed messages.
    let auth =
        json!({ "token": user("slow"), "deviceId": "slow", "resume": { "lunch": sent - 3 } });
    let mut slow = SocketIoTestClient::connect(address(&node), &auth)
        .await
        .unwrap();
    let seqs: [Value; 3] = [sent - 2, sent - 1, sent].map(Value::from);
    for seq in seqs {
        let next = timeout(TEST_TIMEOUT, slow.next_event_named("message:new")).await;
        assert_eq!(next.unwrap().unwrap()["seq"], seq);
    }
}
