//! Socket.IO v5 as in its protocol document: namespaces, events, acknowledgements, attachments, and errors that close a
//! connection.
//!
//! Guarantees to clients, tested here:
//! - A CONNECT to `/` or to another namespace, with or without a payload, is answered with a new `sid`. A CONNECT to an
//!   unknown namespace is answered with a CONNECT_ERROR `Invalid namespace`, and the connection stays open.
//! - A connection is closed if its first packet is not a CONNECT, or if no CONNECT arrives within the connect timeout.
//! - A DISCONNECT ends one namespace. The connection and the other namespaces stay, and pings continue.
//! - Events and acknowledgements carry arguments in both directions, and bytes as attachments, over both transports.
//! - An unknown packet type, an event payload that is not an array with a name, and a malformed ack id close the
//!   connection.

use super::clients::{
    PollingClient, RawWebSocket, ReceivedMessage, start_echo_server, text, without_timeouts,
};
use super::echo::Settings;
use parlor_testkit::encode_client_frame;
use std::net::SocketAddr;
use std::time::Duration;

const PATH: &str = "/socket.io/";

/// Opens a WebSocket that is connected to the main namespace.
async fn connected(address: SocketAddr) -> RawWebSocket {
    let mut ws = RawWebSocket::open(address, PATH).await;
    ws.send_text("40").await;
    assert!(ws.text().await.starts_with("40{\"sid\":\""));
    assert_eq!(ws.text().await, "42[\"auth\",{}]");
    ws
}

#[tokio::test]
async fn a_client_connects_with_and_without_a_payload() {
    let server = start_echo_server(without_timeouts()).await;
    let cases = [
        ("40", "40{", "42[\"auth\",{}]"),
        (
            "40{\"token\":\"123\"}",
            "40{",
            "42[\"auth\",{\"token\":\"123\"}]",
        ),
        ("40/custom,", "40/custom,{", "42/custom,[\"auth\",{}]"),
        ("40/custom", "40/custom,{", "42/custom,[\"auth\",{}]"),
        (
            "40/custom,{\"token\":\"abc\"}",
            "40/custom,{",
            "42/custom,[\"auth\",{\"token\":\"abc\"}]",
        ),
    ];
    for (packet, begin, auth) in cases {
        let mut ws = RawWebSocket::open(server.address, PATH).await;
        ws.send_text(packet).await;
        let answer = ws.text().await;
        let object = answer.strip_prefix(&begin[..begin.len() - 1]).unwrap();
        let object: serde_json::Value = serde_json::from_str(object).unwrap();
        assert!(
            object["sid"].as_str().is_some_and(|sid| !sid.is_empty()),
            "{answer}"
        );
        assert_eq!(object.get("pid"), None, "no pid without recovery");
        assert_eq!(ws.text().await, auth);
    }
}

#[tokio::test]
async fn one_connection_carries_several_namespaces_with_ids_of_their_own() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = connected(server.address).await;
    ws.send_text("40/custom,").await;
    let custom = ws.text().await;
    assert!(custom.starts_with("40/custom,{\"sid\":\""));
    assert_eq!(ws.text().await, "42/custom,[\"auth\",{}]");
    ws.send_text("42/custom,[\"message\",1]").await;
    assert_eq!(ws.text().await, "42/custom,[\"message-back\",1]");
    ws.send_text("42/custom,7[\"message-with-ack\",1]").await;
    assert_eq!(ws.text().await, "43/custom,7[1]");
    ws.send_text("42[\"message\",2]").await;
    assert_eq!(ws.text().await, "42[\"message-back\",2]");
}

#[tokio::test]
async fn an_unknown_namespace_is_refused_and_the_connection_stays() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = RawWebSocket::open(server.address, PATH).await;
    ws.send_text("40/random").await;
    assert_eq!(
        ws.text().await,
        "44/random,{\"message\":\"Invalid namespace\"}"
    );
    ws.send_text("40/random,{\"a\":1}").await;
    assert_eq!(
        ws.text().await,
        "44/random,{\"message\":\"Invalid namespace\"}"
    );
    ws.send_text("40").await;
    assert!(ws.text().await.starts_with("40{"));
}

#[tokio::test]
async fn a_malformed_first_packet_closes_the_connection() {
    let server = start_echo_server(without_timeouts()).await;
    for packet in ["4abc", "4", "40[]", "40{", "40null", "40\"a\"", "42{}"] {
        let mut ws = RawWebSocket::open(server.address, PATH).await;
        ws.send_text(packet).await;
        ws.wait_for_close().await;
    }
}

#[tokio::test]
async fn sessions_without_a_namespace_are_closed_on_both_transports() {
    let settings = Settings {
        connect_timeout: Duration::from_millis(80),
        ping_interval: Duration::from_millis(500),
        ..without_timeouts()
    };
    let server = start_echo_server(settings).await;
    RawWebSocket::open(server.address, PATH)
        .await
        .wait_for_close()
        .await;
    PollingClient::open(server.address, PATH)
        .await
        .poll_until_closed()
        .await;
    // A rejected CONNECT does not count as a connected namespace.
    let mut refused = RawWebSocket::open(server.address, PATH).await;
    refused.send_text("40/random").await;
    refused.wait_for_close().await;
}

#[tokio::test]
async fn a_connected_client_is_not_closed_by_the_connect_timeout() {
    let settings = Settings {
        connect_timeout: Duration::from_secs(1),
        ping_interval: Duration::from_millis(500),
        ..without_timeouts()
    };
    let server = start_echo_server(settings).await;
    let mut ws = connected(server.address).await;
    let mut pings = 0;
    while pings < 4 {
        assert_eq!(ws.text().await, "2");
        ws.send_text("3").await;
        pings += 1;
    }
}

#[tokio::test]
async fn leaving_one_namespace_keeps_the_other() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = connected(server.address).await;
    ws.send_text("40/custom").await;
    ws.text().await;
    ws.text().await;
    ws.send_text("41/custom").await;
    ws.send_text("42[\"message\",\"to main\"]").await;
    assert_eq!(ws.text().await, "42[\"message-back\",\"to main\"]");
    // The client can connect to the namespace again.
    ws.send_text("40/custom,").await;
    assert!(ws.text().await.starts_with("40/custom,{"));
    assert_eq!(ws.text().await, "42/custom,[\"auth\",{}]");
    ws.send_text("41/custom,").await;
    ws.send_text("42[\"message\"]").await;
    assert_eq!(ws.text().await, "42[\"message-back\"]");
}

#[tokio::test]
async fn leaving_the_main_namespace_keeps_the_connection() {
    let settings = Settings {
        ping_interval: Duration::from_millis(100),
        ..without_timeouts()
    };
    let server = start_echo_server(settings).await;
    let mut ws = RawWebSocket::open(server.address, PATH).await;
    ws.send_text("40").await;
    while !ws.text().await.starts_with("42[\"auth\"") {}
    ws.send_text("41").await;
    assert_eq!(ws.text().await, "2");
    ws.send_text("3").await;
    assert_eq!(ws.text().await, "2");
}

#[tokio::test]
async fn events_come_back_with_the_same_arguments() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = connected(server.address).await;
    for args in [
        "1,\"2\",{\"3\":[true]}",
        "null",
        "\"€ \\u20ac \\ud83d\\ude00\"",
        "[[],{}]",
        "1e400,-0.0",
        "{\"a\":{\"b\":[1,2]}},2,3,4,5,6,7,8,9",
    ] {
        ws.send_text(&format!("42[\"message\",{args}]")).await;
        assert_eq!(ws.text().await, format!("42[\"message-back\",{args}]"));
    }
    ws.send_text("42[\"message\"]").await;
    assert_eq!(ws.text().await, "42[\"message-back\"]");
}

#[tokio::test]
async fn acknowledgements_carry_the_id_and_the_arguments() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = connected(server.address).await;
    ws.send_text("42456[\"message-with-ack\",1,\"2\",{\"3\":[false]}]")
        .await;
    assert_eq!(ws.text().await, "43456[1,\"2\",{\"3\":[false]}]");
    ws.send_text("420[\"message-with-ack\"]").await;
    assert_eq!(ws.text().await, "430[]");
}

#[tokio::test]
async fn events_with_attachments_are_echoed_with_their_attachments() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = connected(server.address).await;
    let places = "{\"_placeholder\":true,\"num\":0},{\"_placeholder\":true,\"num\":1}";
    for (packet, answer) in [
        ("452-[\"message\",", "452-[\"message-back\","),
        ("452-789[\"message-with-ack\",", "462-789["),
    ] {
        ws.send_text(&format!("{packet}{places}]")).await;
        ws.send_binary(&[1, 2, 3]).await;
        ws.send_binary(&[4, 5, 6]).await;
        assert_eq!(ws.text().await, format!("{answer}{places}]"));
        assert_eq!(ws.next().await, ReceivedMessage::Binary(vec![1, 2, 3]));
        assert_eq!(ws.next().await, ReceivedMessage::Binary(vec![4, 5, 6]));
    }
}

#[tokio::test]
async fn acknowledgements_of_nothing_are_no_fault() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = connected(server.address).await;
    ws.send_text("437[]").await;
    ws.send_text("42[\"message\",1]").await;
    assert_eq!(ws.text().await, "42[\"message-back\",1]");
}

#[tokio::test]
async fn events_without_a_handler_are_no_fault() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = connected(server.address).await;
    ws.send_text("42[\"unknown\",1]").await;
    ws.send_text("42[\"message\",1]").await;
    assert_eq!(ws.text().await, "42[\"message-back\",1]");
}

#[tokio::test]
async fn what_is_no_packet_closes_the_connection() {
    let server = start_echo_server(without_timeouts()).await;
    let broken = [
        "4abc",
        "4",
        "47",
        "42{}",
        "42",
        "42[]",
        "42[\"message\"",
        "42[\"message\",]",
        "42[null]",
        "42abc[\"message-with-ack\",1,\"2\",{\"3\":[false]}]",
        "42[\"connect\"]",
        "42[\"disconnect\",1]",
        "45[\"message\"]",
        "451[\"message\"]",
        "4599999999-[\"message\"]",
        "41{}",
        "43[]",
    ];
    for packet in broken {
        let mut ws = connected(server.address).await;
        ws.send_text(packet).await;
        ws.wait_for_close().await;
    }
}

#[tokio::test]
async fn unexpected_or_missing_attachments_close_the_connection() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = connected(server.address).await;
    ws.send_binary(&[1]).await;
    ws.wait_for_close().await;
    // A text message in place of an attachment.
    let mut ws = connected(server.address).await;
    ws.send_text("451-[\"message\",{\"_placeholder\":true,\"num\":0}]")
        .await;
    ws.send_text("42[\"message\",1]").await;
    ws.wait_for_close().await;
    // A placeholder of an attachment that the packet does not have.
    let mut ws = connected(server.address).await;
    ws.send_text("451-[\"message\",{\"_placeholder\":true,\"num\":1}]")
        .await;
    ws.send_binary(&[1]).await;
    ws.wait_for_close().await;
}

#[tokio::test]
async fn attachments_are_bounded_together() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = connected(server.address).await;
    ws.send_text("453-[\"message\",{\"_placeholder\":true,\"num\":0}]")
        .await;
    for _ in 0..3 {
        ws.send_binary(&[7; 60_000]).await;
    }
    ws.wait_for_close().await;
}

#[tokio::test]
async fn events_acks_and_attachments_work_over_polling() {
    let server = start_echo_server(without_timeouts()).await;
    let mut polling = PollingClient::open(server.address, PATH).await;
    polling.post_packets("40").await;
    let mut fetched = Vec::new();
    fetch(&mut polling, &mut fetched, 2).await;
    assert!(fetched[0].starts_with("40{\"sid\":"));
    assert_eq!(fetched[1], "42[\"auth\",{}]");
    fetched.clear();
    polling.post_packets("42[\"message\",1]").await;
    polling.post_packets("421[\"message-with-ack\",2]").await;
    polling
        .post_packets("451-[\"message\",{\"_placeholder\":true,\"num\":0}]\x1ebAQID")
        .await;
    fetch(&mut polling, &mut fetched, 4).await;
    assert_eq!(
        fetched,
        [
            "42[\"message-back\",1]",
            "431[2]",
            "451-[\"message-back\",{\"_placeholder\":true,\"num\":0}]",
            "bAQID"
        ]
    );
    polling.post_packets("42{}").await;
    polling.poll_until_closed().await;
}

async fn fetch(polling: &mut PollingClient, fetched: &mut Vec<String>, count: usize) {
    while fetched.len() < count {
        let answer = polling.get().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        fetched.extend(answer.body.split('\x1e').map(str::to_owned));
    }
}

#[tokio::test]
async fn events_sent_before_the_connect_reply_are_handled_after_it() {
    let server = start_echo_server(without_timeouts()).await;
    let mut ws = RawWebSocket::open(server.address, PATH).await;
    // All frames in one write: the events have to wait until the handler has answered the CONNECT.
    let frames = ["40", "42[\"message\",1]", "42[\"message\",2]"]
        .map(|packet| encode_client_frame(0x81, packet.as_bytes()));
    ws.send_bytes(&frames.concat()).await;
    assert!(ws.text().await.starts_with("40{"));
    assert_eq!(ws.text().await, "42[\"auth\",{}]");
    assert_eq!(ws.next().await, text("42[\"message-back\",1]"));
    assert_eq!(ws.next().await, text("42[\"message-back\",2]"));
}
