//! Failover of the store while sockets of two nodes receive a constant stream of messages.

use std::time::Duration;

use futures_util::future::join_all;
use parlor_testkit::{Postgres, SentinelSet, ServerProcess, SocketIoTestClient, eventually_within};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

use super::connect_with_auth;
use crate::http::client::{node, ready};
use crate::http::conversations::create_lunch_group;
use crate::tokens::user;

/// Listening sockets per node.
const LISTENERS: usize = 8;
/// Messages of each of the two writers: in total, and before the primary is killed.
const MESSAGES: u64 = 60;
const MESSAGES_BEFORE: u64 = 20;
/// Timeout of a step, for a failover on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(90);

/// Events that a socket has received.
#[derive(Debug, Default, PartialEq, Eq)]
struct Log {
    messages: Vec<u64>,
    edits: Vec<u64>,
}

struct FailoverListener {
    socket: SocketIoTestClient,
    log: Log,
}

impl FailoverListener {
    /// Receives events until these numbers of messages and edits have arrived, on one connection that must not break.
    async fn receive_all(mut self, messages: u64, edits: usize) -> Self {
        let log = &mut self.log;
        while (log.messages.len() as u64) < messages || log.edits.len() < edits {
            let next = timeout(TEST_TIMEOUT, self.socket.next_event()).await;
            let next = next.unwrap_or_else(|_| panic!("no further event after {log:?}"));
            let (name, body) = next.unwrap_or_else(|error| panic!("{error:?} after {log:?}"));
            let seq = || body["seq"].as_u64().unwrap();
            match name.as_str() {
                "message:new" => log.messages.push(seq()),
                "message:edited" => log.edits.push(seq()),
                _ => {}
            }
        }
        self
    }
}

async fn device(node: &ServerProcess, name: &str, device: &str) -> SocketIoTestClient {
    let auth = json!({ "token": user(name), "deviceId": device });
    connect_with_auth(node, &auth).await
}

/// Emits an event until it succeeds: without a primary, the store is unavailable.
async fn emit_until_acknowledged(
    socket: &mut SocketIoTestClient,
    event: &str,
    body: serde_json::Value,
) {
    eventually_within(TEST_TIMEOUT, event, async || {
        let ack = socket.emit_with_ack(event, &body).await.unwrap();
        let code = ack["error"]["code"].as_str();
        match code {
            None => Ok(()),
            Some("store_unavailable") => Err(ack.to_string()),
            Some(_) => panic!("{event}: {ack}"),
        }
    })
    .await;
}

async fn write(
    mut socket: SocketIoTestClient,
    name: &str,
    sent: &watch::Sender<u64>,
) -> SocketIoTestClient {
    for number in 1..=MESSAGES {
        let body = json!({
            "conversationId": "lunch", "content": format!("{name} {number}"), "clientId": format!("{name}-{number}")
        });
        emit_until_acknowledged(&mut socket, "message:send", body).await;
        sent.send_modify(|sent| *sent += 1);
    }
    socket
}

#[tokio::test]
async fn a_failover_loses_and_duplicates_no_message() {
    let (mut servers, postgres) = tokio::join!(SentinelSet::start(), Postgres::start());
    let database = postgres.create_database().await;
    let options = node()
        .env("PARLOR_STORE__URL", servers.url())
        .env("PARLOR_DATABASE__URL", &database)
        .env("PARLOR_LIMITS__MESSAGES", "10000");
    let nodes = [ready(options.clone()).await, ready(options).await];
    create_lunch_group(&nodes[0]).await;

    let body = json!({ "conversationId": "lunch", "afterSeq": 0 });
    let mut listeners = Vec::new();
    for number in 0..2 * LISTENERS {
        let name = ["alice", "bob"][number / 2 % 2];
        let mut socket = device(&nodes[number % 2], name, &format!("d{number}")).await;
        let joined = socket
            .emit_with_ack("conversation:join", &body)
            .await
            .unwrap();
        assert_eq!(joined["missed"], json!([]), "{joined}");
        let log = Log::default();
        listeners.push(FailoverListener { socket, log }.receive_all(2 * MESSAGES, 1));
    }
    let writers = [
        device(&nodes[0], "alice", "phone").await,
        device(&nodes[1], "bob", "phone").await,
    ];
    let sent = watch::Sender::new(0);
    let [alice, bob] = writers;
    let writing = async {
        let writing = tokio::join!(write(alice, "alice", &sent), write(bob, "bob", &sent));
        let (mut alice, _bob) = writing;
        let edit = json!({ "conversationId": "lunch", "seq": 1, "content": "edited" });
        emit_until_acknowledged(&mut alice, "message:edit", edit).await;
        alice
    };
    let failing = async {
        let mut sent = sent.subscribe();
        let before = sent.wait_for(|sent| *sent >= 2 * MESSAGES_BEFORE);
        timeout(TEST_TIMEOUT, before).await.unwrap().unwrap();
        let old = servers.kill9_primary().await;
        eventually_within(TEST_TIMEOUT, "another server is primary", async || {
            servers.primary_port().await != old
        })
        .await;
    };
    let (listeners, mut alice, ()) = tokio::join!(join_all(listeners), writing, failing);
    // A duplicate would arrive before this last message.
    let last = json!({ "conversationId": "lunch", "content": "the end" });
    emit_until_acknowledged(&mut alice, "message:send", last).await;
    let listeners = listeners.into_iter();
    let listeners = join_all(listeners.map(|it| it.receive_all(2 * MESSAGES + 1, 1))).await;
    let all = Log {
        messages: (1..=2 * MESSAGES + 1).collect(),
        edits: vec![1],
    };
    for listener in listeners {
        assert_eq!(listener.log, all);
    }
}
