//! RFC 6455 over TCP: opening handshake, split and interleaved frames, closing handshake.

use super::clients::{
    KEY, RawConnection, RawWebSocket, ReceivedMessage, handshake, start_echo_server, text,
    without_timeouts,
};
use parlor_testkit::encode_client_frame;

const PATH: &str = "/engine.io/";
const TARGET: &str = "/engine.io/?EIO=4&transport=websocket";

#[tokio::test]
async fn the_key_is_answered_and_no_extension_is_agreed_on() {
    let server = start_echo_server(without_timeouts()).await;
    let mut wire = RawConnection::open(server.address).await;
    let offers = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\nSec-WebSocket-Protocol: chat\r\n";
    wire.write(&handshake(TARGET, offers)).await;
    let answer = wire.read_response().await;
    assert_eq!(answer.status, 101);
    assert_eq!(
        answer
            .header("upgrade")
            .map(str::to_ascii_lowercase)
            .as_deref(),
        Some("websocket")
    );
    assert_eq!(
        answer
            .header("connection")
            .map(str::to_ascii_lowercase)
            .as_deref(),
        Some("upgrade")
    );
    assert_eq!(
        answer.header("sec-websocket-accept"),
        Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    );
    assert_eq!(answer.header("sec-websocket-extensions"), None);
    assert_eq!(answer.header("sec-websocket-protocol"), None);
}

#[tokio::test]
async fn a_request_that_is_no_handshake_is_refused() {
    let server = start_echo_server(without_timeouts()).await;
    let good = format!(
        "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n"
    );
    let status = async |method: &str, headers: &str| {
        let mut wire = RawConnection::open(server.address).await;
        wire.write(format!("{method} {TARGET} HTTP/1.1\r\nHost: test\r\n{headers}\r\n").as_bytes())
            .await;
        wire.read_response().await.status
    };
    assert_eq!(status("GET", &good).await, 101);
    assert_eq!(status("POST", &good).await, 400);
    for (line, instead) in [
        ("Connection: keep-alive, Upgrade\r\n", ""),
        ("Upgrade: WebSocket\r\n", "Upgrade: h2c\r\n"),
        (KEY, "short"),
    ] {
        let status = status("GET", &good.replace(line, instead)).await;
        assert_eq!(status, 400, "without {line}");
    }
}

#[tokio::test]
async fn a_handshake_of_another_version_is_told_the_right_one() {
    let server = start_echo_server(without_timeouts()).await;
    for instead in ["", "Sec-WebSocket-Version: 8\r\n"] {
        let mut wire = RawConnection::open(server.address).await;
        let request = String::from_utf8(handshake(TARGET, "")).unwrap();
        let request = request.replace("Sec-WebSocket-Version: 13\r\n", instead);
        wire.write(request.as_bytes()).await;
        let answer = wire.read_response().await;
        assert_eq!(answer.status, 426);
        assert_eq!(answer.header("sec-websocket-version"), Some("13"));
    }
}

#[tokio::test]
async fn frames_that_came_with_the_handshake_are_read() {
    let server = start_echo_server(without_timeouts()).await;
    let mut wire = RawConnection::open(server.address).await;
    wire.write(
        &[
            handshake(TARGET, ""),
            encode_client_frame(0x81, b"4early"),
            encode_client_frame(0x81, b"4bird"),
        ]
        .concat(),
    )
    .await;
    assert_eq!(wire.read_response().await.status, 101);
    let mut ws = RawWebSocket::from_connection(wire);
    assert!(ws.text().await.starts_with('0'));
    assert_eq!(ws.next().await, text("4early"));
    assert_eq!(ws.next().await, text("4bird"));
}

#[tokio::test]
async fn frames_may_arrive_byte_by_byte() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = RawWebSocket::open(server.address, PATH).await;
    for byte in [
        encode_client_frame(0x81, "4κόσμε".as_bytes()),
        encode_client_frame(0x82, &[7; 130]),
    ]
    .concat()
    {
        ws.send_bytes(&[byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(ws.next().await, text("4κόσμε"));
    assert_eq!(ws.next().await, ReceivedMessage::Binary(vec![7; 130]));
}

#[tokio::test]
async fn fragments_are_one_message_and_pings_between_them_are_answered() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = RawWebSocket::open(server.address, PATH).await;
    ws.send_bytes(
        &[
            encode_client_frame(0x01, b"4Hel"),
            encode_client_frame(0x89, b"are you there"),
            encode_client_frame(0x00, b"l"),
            encode_client_frame(0x8a, b"nobody asked"),
            encode_client_frame(0x80, b"o"),
        ]
        .concat(),
    )
    .await;
    assert_eq!(
        ws.next().await,
        ReceivedMessage::Pong(b"are you there".to_vec())
    );
    assert_eq!(ws.next().await, text("4Hello"));
    ws.send_bytes(&encode_client_frame(0x89, b"")).await;
    assert_eq!(ws.next().await, ReceivedMessage::Pong(vec![]));
}

#[tokio::test]
async fn every_form_of_length_comes_back() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = RawWebSocket::open(server.address, PATH).await;
    for length in [0, 1, 125, 126, 127, 65_535, 65_536, 100_000] {
        let bytes: Vec<u8> = (0..length).map(|n| n as u8).collect();
        ws.send_binary(&bytes).await;
        assert_eq!(ws.next().await, ReceivedMessage::Binary(bytes));
    }
}

#[tokio::test]
async fn a_close_is_answered_with_its_code_and_then_the_connection_ends() {
    let server = start_echo_server(without_timeouts()).await;
    for code in [1000_u16, 1001, 3000, 4999] {
        let mut ws = RawWebSocket::open(server.address, PATH).await;
        ws.send_bytes(&encode_client_frame(
            0x88,
            &[&code.to_be_bytes()[..], b"bye"].concat(),
        ))
        .await;
        assert_eq!(ws.wait_for_close().await, Some(code));
    }
    let mut ws = RawWebSocket::open(server.address, PATH).await;
    ws.send_bytes(&encode_client_frame(0x88, b"")).await;
    assert!(matches!(ws.wait_for_close().await, None | Some(1000)));
}

#[tokio::test]
async fn what_comes_before_a_close_is_still_answered() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = RawWebSocket::open(server.address, PATH).await;
    ws.send_bytes(
        &[
            encode_client_frame(0x81, b"4last"),
            encode_client_frame(0x88, &1000_u16.to_be_bytes()),
            encode_client_frame(0x81, b"4too late"),
        ]
        .concat(),
    )
    .await;
    assert_eq!(ws.next().await, text("4last"));
    assert_eq!(ws.next().await, ReceivedMessage::Close(Some(1000)));
    assert_eq!(ws.next().await, ReceivedMessage::End);
}

#[tokio::test]
async fn a_violation_is_answered_with_its_code() {
    let server = start_echo_server(without_timeouts()).await;
    let cases: [(&str, Vec<u8>, u16); 10] = [
        ("no mask", vec![0x81, 0x01, b'4'], 1002),
        ("reserved bit", encode_client_frame(0xc1, b"4a"), 1002),
        ("reserved opcode", encode_client_frame(0x83, b"4a"), 1002),
        ("fragmented ping", encode_client_frame(0x09, b""), 1002),
        (
            "continuation without a message",
            encode_client_frame(0x80, b"4a"),
            1002,
        ),
        (
            "status code that is not allowed",
            encode_client_frame(0x88, &1005_u16.to_be_bytes()),
            1002,
        ),
        (
            "text that is not UTF-8",
            encode_client_frame(0x81, b"4\xff"),
            1007,
        ),
        (
            "fragment that is not UTF-8",
            encode_client_frame(0x01, b"4\xc0\xaf"),
            1007,
        ),
        (
            "above the limit",
            encode_client_frame(0x82, &[0; 100_001]),
            1009,
        ),
        (
            "above the limit by its header",
            vec![0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4],
            1009,
        ),
    ];
    for (name, bytes, code) in cases {
        let mut ws = RawWebSocket::open(server.address, PATH).await;
        ws.send_bytes(&bytes).await;
        assert_eq!(ws.wait_for_close().await, Some(code), "{name}");
    }
}

#[tokio::test]
async fn a_protocol_violation_closes_only_its_own_connection() {
    let server = start_echo_server(without_timeouts()).await;
    let mut without_timeouts = RawWebSocket::open(server.address, PATH).await;
    for _ in 0..20 {
        let mut wild = RawWebSocket::open(server.address, PATH).await;
        wild.send_bytes(&[0xff; 64]).await;
        assert_eq!(wild.wait_for_close().await, Some(1002));
    }
    without_timeouts.send_text("4hello").await;
    assert_eq!(without_timeouts.next().await, text("4hello"));
}
