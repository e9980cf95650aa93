//! Upgrade from polling to WebSocket: the probe, rejected probes, and no lost, duplicated or reordered packets.

use super::clients::{
    PollingClient, RawWebSocket, ReceivedMessage, serve_engine, start_echo_server, text,
    without_timeouts,
};
use bytes::Bytes;
use parking_lot::Mutex;
use parlor_socketio::SocketIoOptions;
use parlor_socketio::engine_io::{EngineIoServer, EngineIoSession, SessionHandler};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Semaphore;

const PATH: &str = "/engine.io/";

fn websocket_target(polling: &PollingClient) -> String {
    polling
        .target
        .replace("transport=polling", "transport=websocket")
}

/// Opens a WebSocket and probes it without completing the upgrade.
async fn open_and_probe(polling: &PollingClient) -> RawWebSocket {
    let mut ws = RawWebSocket::try_open(polling.address, &websocket_target(polling))
        .await
        .unwrap();
    ws.send_text("2probe").await;
    assert_eq!(ws.next().await, text("3probe"));
    ws
}

#[tokio::test]
async fn a_session_moves_to_a_websocket() {
    let server = start_echo_server(without_timeouts()).await;
    let polling = PollingClient::open(server.address, PATH).await;
    let mut ws = open_and_probe(&polling).await;
    ws.send_text("5").await;
    ws.send_text("4hello").await;
    assert_eq!(ws.next().await, text("4hello"));
}

#[tokio::test]
async fn a_pending_poll_is_answered_with_noop_during_an_upgrade() {
    let server = start_echo_server(without_timeouts()).await;
    let mut polling = PollingClient::open(server.address, PATH).await;
    polling.start_poll().await;
    let mut ws = open_and_probe(&polling).await;
    let answer = polling.finish_poll().await;
    assert_eq!((answer.status, &*answer.body), (200, "6"));
    ws.send_text("5").await;
    ws.send_text("4a").await;
    assert_eq!(ws.next().await, text("4a"));
}

#[tokio::test]
async fn polling_goes_on_until_the_websocket_is_taken() {
    let server = start_echo_server(without_timeouts()).await;
    let mut polling = PollingClient::open(server.address, PATH).await;
    let mut ws = open_and_probe(&polling).await;
    polling.post_packets("4before").await;
    let mut fetched = polling.get().await.body;
    while fetched == "6" {
        fetched = polling.get().await.body;
    }
    assert_eq!(fetched, "4before");
    // Packets that were not fetched arrive over the WebSocket.
    polling.post_packets("4waiting").await;
    ws.send_text("5").await;
    ws.send_text("4after").await;
    assert_eq!(ws.next().await, text("4waiting"));
    assert_eq!(ws.next().await, text("4after"));
}

#[tokio::test]
async fn polls_are_rejected_after_the_upgrade() {
    let server = start_echo_server(without_timeouts()).await;
    let mut polling = PollingClient::open(server.address, PATH).await;
    let mut ws = open_and_probe(&polling).await;
    ws.send_text("5").await;
    ws.send_text("4moved").await;
    assert_eq!(ws.next().await, text("4moved"));
    assert_eq!(polling.get().await.status, 400);
    assert_eq!(polling.post(b"4a").await.status, 400);
    ws.send_text("4hello").await;
    assert_eq!(ws.next().await, text("4hello"));
}

#[tokio::test]
async fn a_second_websocket_is_refused_during_and_after_the_move() {
    let server = start_echo_server(without_timeouts()).await;
    let polling = PollingClient::open(server.address, PATH).await;
    let mut ws = open_and_probe(&polling).await;
    refused(&polling).await;
    ws.send_text("5").await;
    ws.send_text("4moved").await;
    assert_eq!(ws.next().await, text("4moved"));
    refused(&polling).await;
    ws.send_text("4hello").await;
    assert_eq!(ws.next().await, text("4hello"));
}

async fn refused(polling: &PollingClient) {
    match RawWebSocket::try_open(polling.address, &websocket_target(polling)).await {
        Ok(mut second) => {
            second.send_text("2probe").await;
            second.wait_for_close().await;
        }
        Err(answer) => assert_eq!(answer.status, 400),
    }
}

#[tokio::test]
async fn a_probe_that_fails_leaves_polling_as_it_was() {
    let server = start_echo_server(without_timeouts()).await;
    let mut polling = PollingClient::open(server.address, PATH).await;
    for wrong in ["3probe", "4hello", "2other", "5", "abc"] {
        let mut ws = RawWebSocket::try_open(polling.address, &websocket_target(&polling))
            .await
            .unwrap();
        ws.send_text(wrong).await;
        while ws.next().await != ReceivedMessage::End {}
        polling.post_packets("4still").await;
        assert_eq!(polling.get().await.body, "4still", "after {wrong}");
    }
    // A WebSocket that is dropped after its probe also leaves polling as it was.
    drop(open_and_probe(&polling).await);
    loop {
        polling.post_packets("4here").await;
        if polling.get().await.body.contains("4here") {
            break;
        }
    }
    let mut ws = loop {
        if let Ok(ws) = RawWebSocket::try_open(polling.address, &websocket_target(&polling)).await {
            break ws;
        }
    };
    ws.send_text("2probe").await;
    assert_eq!(ws.next().await, text("3probe"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbered_packets_arrive_once_and_in_order_through_the_move() {
    let server = start_echo_server(without_timeouts()).await;
    let sessions: Vec<_> = (0..60)
        .map(|turn| tokio::spawn(upgrade_while_posting(server.address, turn)))
        .collect();
    for session in sessions {
        session.await.unwrap();
    }
}

/// Posts and fetches numbers by polling, upgrades at a moment that depends on `turn`, and continues over the WebSocket.
async fn upgrade_while_posting(address: std::net::SocketAddr, turn: usize) {
    let mut polling = PollingClient::open(address, PATH).await;
    let mut seen = Vec::new();
    let mut sent = 0;
    let mut ws = RawWebSocket::try_open(address, &websocket_target(&polling))
        .await
        .unwrap();
    for _ in 0..turn % 7 {
        polling.post_packets(&next_batch(&mut sent)).await;
        collect_numbers(&polling.get().await.body, &mut seen);
    }
    polling.start_poll().await;
    ws.send_text("2probe").await;
    assert_eq!(ws.next().await, text("3probe"));
    // As the JavaScript client does: the pending poll ends, then the upgrade is completed.
    collect_numbers(&polling.finish_poll().await.body, &mut seen);
    if turn.is_multiple_of(2) {
        polling.post_packets(&next_batch(&mut sent)).await;
    }
    ws.send_text("5").await;
    for _ in 0..5 {
        for packet in next_batch(&mut sent).split('\x1e') {
            ws.send_text(packet).await;
        }
    }
    while seen.len() < sent {
        collect_numbers(&ws.text().await, &mut seen);
    }
    assert!(seen.iter().copied().eq(0..sent), "{seen:?}");
}

fn next_batch(sent: &mut usize) -> String {
    let packets: Vec<_> = (*sent..*sent + 5).map(|n| format!("4{n}")).collect();
    *sent += 5;
    packets.join("\x1e")
}

fn collect_numbers(body: &str, seen: &mut Vec<usize>) {
    let numbers = body
        .split('\x1e')
        .filter_map(|packet| packet.strip_prefix('4'));
    seen.extend(numbers.map(|number| number.parse::<usize>().unwrap()));
}

/// Handler that sends numbers from the start of a session, four per permit.
#[derive(Default)]
struct NumberSender(Mutex<HashMap<String, Arc<Semaphore>>>);

impl NumberSender {
    /// Permits of a session.
    fn permits(&self, sid: &str) -> Arc<Semaphore> {
        let new = || Arc::new(Semaphore::new(0));
        Arc::clone(self.0.lock().entry(sid.to_owned()).or_insert_with(new))
    }
}

const NUMBERS: usize = 400;

impl SessionHandler for NumberSender {
    type State = ();

    fn on_open(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>) {
        let (session, permits) = (Arc::clone(session), self.permits(&session.sid()));
        tokio::spawn(async move {
            for n in 0..NUMBERS {
                if n % 4 == 0 {
                    permits.acquire().await.unwrap().forget();
                }
                session.send_text(&n.to_string());
            }
        });
    }

    fn on_text(self: &Arc<Self>, _: &Arc<EngineIoSession<Self>>, _: &str) -> bool {
        true
    }

    fn on_binary(self: &Arc<Self>, _: &Arc<EngineIoSession<Self>>, _: Bytes) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_messages_arrive_once_and_in_order_during_an_upgrade() {
    let options = SocketIoOptions {
        path: "/engine.io".into(),
        ..SocketIoOptions::default()
    };
    let counting = Arc::new(NumberSender::default());
    let engine = EngineIoServer::new(Arc::clone(&counting), options);
    let (address, server) = serve_engine(&engine).await;
    let sessions: Vec<_> = (0..40)
        .map(|turn| {
            tokio::spawn(upgrade_while_receiving(
                Arc::clone(&counting),
                address,
                turn,
            ))
        })
        .collect();
    for session in sessions {
        session.await.unwrap();
    }
    server.abort();
}

/// Fetches by polling, upgrades at a moment that depends on `turn`, and continues reading. The server sends at every
/// step.
async fn upgrade_while_receiving(
    counting: Arc<NumberSender>,
    address: std::net::SocketAddr,
    turn: usize,
) {
    let mut polling = PollingClient::open(address, PATH).await;
    let (_, sid) = polling.target.split_once("sid=").unwrap();
    let permits = counting.permits(sid);
    let mut seen = Vec::new();
    for _ in 0..turn % 5 {
        permits.add_permits(1);
        collect_numbers(&polling.get().await.body, &mut seen);
    }
    permits.add_permits(3);
    let mut ws = RawWebSocket::try_open(address, &websocket_target(&polling))
        .await
        .unwrap();
    polling.start_poll().await;
    permits.add_permits(3);
    ws.send_text("2probe").await;
    assert_eq!(ws.next().await, text("3probe"));
    permits.add_permits(3);
    collect_numbers(&polling.finish_poll().await.body, &mut seen);
    permits.add_permits(3);
    ws.send_text("5").await;
    while seen.len() < NUMBERS {
        permits.add_permits(1);
        collect_numbers(&ws.text().await, &mut seen);
    }
    assert!(seen.iter().copied().eq(0..NUMBERS), "{seen:?}");
}
