//! Engine.IO v4 as in its protocol document: handshake, messages, heartbeat and close over both transports.
//!
//! Guarantees to clients, tested here and in [`upgrade`](super::upgrade):
//! - The handshake returns `sid`, `upgrades`, `pingInterval`, `pingTimeout` and `maxPayload`, over polling and over
//!   WebSocket. A missing or unknown `EIO` or `transport`, or a wrong method, is answered with 400, and no WebSocket is
//!   opened.
//! - A polling body contains one or more packets, text or binary. A POST is answered with `ok`. A malformed body or a
//!   second poll at the same time closes the session: the next request is answered with 400.
//! - A ping is sent every `pingInterval`. If the client does not answer within `pingTimeout`, the session is closed: a
//!   poll is answered with 400, a WebSocket is closed.
//! - A close packet completes the pending poll with a noop, and closes a WebSocket.
//! - A session is upgraded with `2probe`, `3probe`, `5`. After that its `sid` is rejected for polls and for other
//!   WebSockets.

use super::clients::{
    PollingClient, RawConnection, RawWebSocket, ReceivedMessage, sid_of, start_echo_server, text,
    without_timeouts,
};
use super::echo::Settings;
use parlor_testkit::{HttpConnection, HttpResponse, encode_client_frame};
use std::time::Duration;
use tokio::io::AsyncReadExt;

const PATH: &str = "/engine.io/";

/// Settings with frequent pings and a long ping timeout.
fn frequent_pings() -> Settings {
    Settings {
        ping_interval: Duration::from_millis(60),
        ..without_timeouts()
    }
}

/// Settings with frequent pings and a short ping timeout.
fn short_ping_timeout() -> Settings {
    Settings {
        ping_timeout: Duration::from_millis(60),
        ..frequent_pings()
    }
}

fn assert_rejected(answer: &HttpResponse, code: u64) {
    assert_eq!(answer.status, 400, "{answer:?}");
    let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(body["code"], code, "{answer:?}");
    assert!(body["message"].is_string());
}

#[tokio::test]
async fn a_polling_handshake_returns_the_open_packet() {
    let server = start_echo_server(without_timeouts()).await;
    let mut wire = RawConnection::open(server.address).await;
    let answer = wire
        .request("GET", "/engine.io/?EIO=4&transport=polling", b"")
        .await;
    assert_eq!(answer.status, 200);
    let open: serde_json::Value =
        serde_json::from_str(answer.body.strip_prefix('0').unwrap()).unwrap();
    assert!(open["sid"].as_str().is_some_and(|sid| sid.len() >= 16));
    assert_eq!(open["upgrades"], serde_json::json!(["websocket"]));
    assert_eq!(
        (
            &open["pingInterval"],
            &open["pingTimeout"],
            &open["maxPayload"]
        ),
        (&300_000.into(), &200_000.into(), &100_000.into())
    );
    assert_eq!(open.as_object().unwrap().len(), 5);
    let again = wire
        .request("GET", "/engine.io/?EIO=4&transport=polling&t=abc", b"")
        .await;
    assert_ne!(sid_of(&answer.body), sid_of(&again.body));
}

#[tokio::test]
async fn a_websocket_handshake_sends_the_open_packet_without_upgrades() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = RawWebSocket::try_open(server.address, "/engine.io/?EIO=4&transport=websocket")
        .await
        .unwrap();
    let open = ws.text().await;
    let open: serde_json::Value = serde_json::from_str(open.strip_prefix('0').unwrap()).unwrap();
    assert!(open["sid"].is_string());
    assert_eq!(open["upgrades"], serde_json::json!([]));
    assert_eq!(
        (
            &open["pingInterval"],
            &open["pingTimeout"],
            &open["maxPayload"]
        ),
        (&300_000.into(), &200_000.into(), &100_000.into())
    );
}

#[tokio::test]
async fn a_bad_handshake_is_refused_with_the_code_for_it() {
    let server = start_echo_server(without_timeouts()).await;
    let mut wire = RawConnection::open(server.address).await;
    let refused = [
        ("GET", "transport=polling", 5),
        ("GET", "EIO=abc&transport=polling", 5),
        ("GET", "EIO=3&transport=polling", 5),
        ("GET", "", 0),
        ("GET", "EIO=4", 0),
        ("GET", "EIO=4&transport=abc", 0),
        ("GET", "EIO=4&transport=polling&sid=abc", 1),
        (
            "GET",
            "EIO=4&transport=polling&sid=AAA_____________________",
            1,
        ),
        ("POST", "EIO=4&transport=polling", 2),
        ("PUT", "EIO=4&transport=polling", 2),
        ("DELETE", "EIO=4&transport=polling", 2),
        ("GET", "EIO=4&transport=websocket", 3),
    ];
    for (method, query, code) in refused {
        let answer = wire
            .request(method, &format!("/engine.io/?{query}"), b"")
            .await;
        assert_rejected(&answer, code);
    }
    for query in [
        "transport=websocket",
        "EIO=abc&transport=websocket",
        "EIO=4",
        "EIO=4&transport=abc",
        "EIO=4&transport=websocket&sid=abc",
    ] {
        let answer = RawWebSocket::try_open(server.address, &format!("/engine.io/?{query}"))
            .await
            .err()
            .unwrap();
        assert_eq!(answer.status, 400, "{query}");
    }
}

#[tokio::test]
async fn a_polling_session_rejects_methods_other_than_get_and_post() {
    let server = start_echo_server(without_timeouts()).await;
    let mut polling = PollingClient::open(server.address, PATH).await;
    let mut wire = RawConnection::open(server.address).await;
    for method in ["PUT", "DELETE", "PATCH"] {
        assert_eq!(
            wire.request(method, &polling.target, b"4a").await.status,
            400,
            "{method}"
        );
    }
    polling.post_packets("4still there").await;
    assert_eq!(polling.get().await.body, "4still there");
}

#[tokio::test]
async fn polling_carries_text_and_bytes_and_many_packets_at_once() {
    let server = start_echo_server(without_timeouts()).await;
    let mut polling = PollingClient::open(server.address, PATH).await;
    for body in [
        "4hello",
        "4test1\x1e4test2\x1e4test3",
        "4hello\x1ebAQIDBA==",
        "bAQIDBA==",
        "4",
        "4héllo €\u{10348}\\x1e",
    ] {
        polling.post_packets(body).await;
        let answer = polling.get().await;
        assert_eq!((answer.status, &*answer.body), (200, body));
        assert_eq!(
            answer.header("content-type"),
            Some("text/plain; charset=UTF-8")
        );
    }
}

#[tokio::test]
async fn a_waiting_poll_is_answered_when_something_comes() {
    let server = start_echo_server(without_timeouts()).await;
    let mut polling = PollingClient::open(server.address, PATH).await;
    for n in 0..20 {
        polling.start_poll().await;
        polling.post_packets(&format!("4{n}")).await;
        assert_eq!(polling.finish_poll().await.body, format!("4{n}"));
    }
}

#[tokio::test]
async fn a_polling_answer_is_no_larger_than_the_bound() {
    let server = start_echo_server(without_timeouts()).await;
    let mut polling = PollingClient::open(server.address, PATH).await;
    let packet = format!("4{}", "x".repeat(30_000));
    for _ in 0..5 {
        polling.post_packets(&packet).await;
    }
    let mut packets = 0;
    while packets < 5 {
        let answer = polling.get().await;
        assert!(answer.body.len() <= 100_000, "{}", answer.body.len());
        packets += answer
            .body
            .split('\x1e')
            .inspect(|one| assert_eq!(*one, packet))
            .count();
    }
    assert_eq!(packets, 5);
}

#[tokio::test]
async fn a_malformed_post_body_closes_the_session() {
    let server = start_echo_server(without_timeouts()).await;
    for body in [
        &b"abc"[..],
        b"",
        b"4a\x1e",
        b"b!",
        b"4\xff",
        b"0{}",
        b"2probe",
    ] {
        let mut polling = PollingClient::open(server.address, PATH).await;
        let answer = polling.post(body).await;
        if body != b"0{}" && body != b"2probe" {
            assert_eq!(answer.status, 400, "{body:?}");
        }
        polling.poll_until_closed().await;
    }
}

#[tokio::test]
async fn a_body_above_the_bound_is_refused_and_ends_the_session() {
    let server = start_echo_server(without_timeouts()).await;
    let mut polling = PollingClient::open(server.address, PATH).await;
    polling
        .post_packets(&format!("4{}", "x".repeat(99_999)))
        .await;
    assert_eq!(polling.get().await.body.len(), 100_000);
    let answer = polling
        .post(format!("4{}", "x".repeat(100_000)).as_bytes())
        .await;
    assert_eq!(answer.status, 413);
    polling.poll_until_closed().await;
}

#[tokio::test]
async fn a_body_of_unknown_length_is_bounded_too() {
    let server = start_echo_server(without_timeouts()).await;
    let polling = PollingClient::open(server.address, PATH).await;
    let mut wire = RawConnection::open(server.address).await;
    wire.write(
        format!(
            "POST {} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n",
            polling.target
        )
        .as_bytes(),
    )
    .await;
    let chunk = [b"8000\r\n4".as_slice(), &[b'x'; 0x7fff], b"\r\n"].concat();
    for _ in 0..5 {
        wire.write(&chunk).await;
    }
    assert_eq!(wire.read_response().await.status, 413);
}

#[tokio::test]
async fn a_connection_to_be_closed_ends_after_one_complete_response() {
    let server = start_echo_server(without_timeouts()).await;
    let mut target = format!("{PATH}?EIO=4&transport=polling");
    for (method, body, expected) in [
        ("GET", "", "0{"),
        ("POST", "4echo", "ok"),
        ("GET", "", "4echo"),
    ] {
        let mut connection = HttpConnection::open(server.address).await.unwrap();
        let headers = [("Connection", "close")];
        let response = connection
            .request(method, &target, &headers, body.as_bytes())
            .await;
        let response = response.unwrap();
        assert_eq!(response.status, 200, "{}", response.body);
        assert!(response.body.starts_with(expected), "{}", response.body);
        let mut rest = Vec::new();
        connection.stream.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"", "{method}");
        if expected == "0{" {
            target += &format!("&sid={}", sid_of(&response.body));
        }
    }
}

#[tokio::test]
async fn a_second_poll_at_the_same_time_ends_the_session() {
    let server = start_echo_server(without_timeouts()).await;
    let mut polling = PollingClient::open(server.address, PATH).await;
    polling.start_poll().await;
    let mut other = RawConnection::open(server.address).await;
    other.send_request("GET", &polling.target, b"").await;
    // The order of the two polls is not defined: one is rejected, the other is answered because the session closes.
    let statuses = [
        polling.finish_poll().await.status,
        other.read_response().await.status,
    ];
    assert!(statuses.contains(&400), "{statuses:?}");
    polling.poll_until_closed().await;
}

#[tokio::test]
async fn a_poll_that_is_dropped_ends_the_session() {
    let server = start_echo_server(without_timeouts()).await;
    let mut polling = PollingClient::open(server.address, PATH).await;
    // The server may not have read the request when its connection ends, so several attempts can be necessary.
    for _ in 0..1000 {
        let mut other = RawConnection::open(server.address).await;
        other.send_request("GET", &polling.target, b"").await;
        polling.post(b"3").await;
        drop(other);
        if polling.post(b"3").await.status == 400 {
            return;
        }
    }
    panic!("the session is open after a dropped poll");
}

#[tokio::test]
async fn polling_is_pinged_and_answers() {
    let server = start_echo_server(frequent_pings()).await;
    let mut polling = PollingClient::open(server.address, PATH).await;
    for _ in 0..3 {
        let answer = polling.get().await;
        assert!(
            answer.body.split('\x1e').all(|packet| packet == "2"),
            "{answer:?}"
        );
        polling.post_packets("3").await;
    }
    polling.post_packets("4hello").await;
    assert!(polling.get().await.body.contains("4hello"));
}

#[tokio::test]
async fn a_polling_client_that_misses_the_ping_timeout_is_closed() {
    let server = start_echo_server(short_ping_timeout()).await;
    let mut polling = PollingClient::open(server.address, PATH).await;
    let fetched = polling.poll_until_closed().await;
    assert!(
        fetched.first().is_none_or(|first| first.starts_with('2')),
        "{fetched:?}"
    );
    assert_rejected(&polling.post(b"3").await, 1);
}

#[tokio::test]
async fn a_client_that_answers_pings_survives_a_stalled_server() {
    let server = start_echo_server(short_ping_timeout()).await;
    let mut ws = RawWebSocket::open(server.address, PATH).await;
    for _ in 0..8 {
        // Server and client share this thread, so neither reads or writes meanwhile.
        std::thread::sleep(Duration::from_millis(150));
        assert_eq!(ws.next().await, text("2"));
        ws.send_text("3").await;
    }
}

#[tokio::test]
async fn a_close_packet_over_polling_ends_the_session() {
    let server = start_echo_server(without_timeouts()).await;
    let mut polling = PollingClient::open(server.address, PATH).await;
    polling.start_poll().await;
    polling.post_packets("1").await;
    let answer = polling.finish_poll().await;
    // If the poll arrives after the close packet, the session is already removed.
    assert!(
        matches!((answer.status, &*answer.body), (200, "6") | (400, _)),
        "{answer:?}"
    );
    assert_rejected(&polling.get().await, 1);
}

#[tokio::test]
async fn a_websocket_carries_text_and_bytes() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = RawWebSocket::open(server.address, PATH).await;
    ws.send_text("4hello").await;
    assert_eq!(ws.next().await, text("4hello"));
    ws.send_binary(&[1, 2, 3, 4]).await;
    assert_eq!(ws.next().await, ReceivedMessage::Binary(vec![1, 2, 3, 4]));
    ws.send_binary(&[]).await;
    assert_eq!(ws.next().await, ReceivedMessage::Binary(vec![]));
    ws.send_text("4").await;
    assert_eq!(ws.next().await, text("4"));
}

#[tokio::test]
async fn many_messages_in_one_write_come_back_in_order() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = RawWebSocket::open(server.address, PATH).await;
    let all: Vec<u8> = (0..3000)
        .flat_map(|n| encode_client_frame(0x81, format!("4{n}").as_bytes()))
        .collect();
    ws.send_bytes(&all).await;
    for n in 0..3000 {
        assert_eq!(ws.next().await, text(&format!("4{n}")));
    }
}

#[tokio::test]
async fn a_malformed_text_packet_closes_the_websocket() {
    let server = start_echo_server(without_timeouts()).await;
    for packet in ["abc", "", "7", "0{}", "2", "1x"] {
        let mut ws = RawWebSocket::open(server.address, PATH).await;
        ws.send_text(packet).await;
        ws.wait_for_close().await;
    }
}

#[tokio::test]
async fn a_websocket_is_pinged_and_answers() {
    let server = start_echo_server(frequent_pings()).await;
    let mut ws = RawWebSocket::open(server.address, PATH).await;
    for _ in 0..3 {
        assert_eq!(ws.next().await, text("2"));
        ws.send_text("3").await;
    }
}

#[tokio::test]
async fn a_websocket_that_answers_no_ping_is_closed() {
    let server = start_echo_server(short_ping_timeout()).await;
    let mut ws = RawWebSocket::open(server.address, PATH).await;
    assert_eq!(ws.next().await, text("2"));
    ws.wait_for_close().await;
}

#[tokio::test]
async fn a_websocket_client_says_goodbye() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = RawWebSocket::open(server.address, PATH).await;
    ws.send_text("1").await;
    ws.wait_for_close().await;
}
