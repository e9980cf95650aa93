//! Tests of the Socket.IO gateway at the level of packets.

mod failover;
mod handshake;
mod limits;
mod message_stream;
mod outage;
mod presence_keys;
mod user_events;

use std::net::SocketAddr;
use std::time::Duration;

use parlor_testkit::{ServerProcess, SocketIoClientError, SocketIoTestClient};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::tokens::user;

/// Timeout of a test step.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

fn address(node: &ServerProcess) -> SocketAddr {
    node.http_address()
}

/// Connects a user with the device id `phone`.
pub async fn connect(node: &ServerProcess, name: &str) -> SocketIoTestClient {
    let auth = json!({ "token": user(name), "deviceId": "phone" });
    connect_with_auth(node, &auth).await
}

async fn connect_with_auth(node: &ServerProcess, auth: &Value) -> SocketIoTestClient {
    let client = SocketIoTestClient::connect(address(node), auth).await;
    client.unwrap_or_else(|error| panic!("{auth}: {error:?}"))
}

/// Expects a rejected handshake and returns its error.
async fn expect_connect_error(node: &ServerProcess, auth: &Value) -> Value {
    match SocketIoTestClient::connect(address(node), auth).await {
        Err(SocketIoClientError::Rejected(why)) => {
            assert_eq!(why["code"], why["data"]["code"], "{why}");
            assert_eq!(why["message"], why["data"]["message"], "{why}");
            why
        }
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("{auth} was accepted"),
    }
}

/// Emits an event and returns its successful acknowledgement.
pub async fn emit_ok(client: &mut SocketIoTestClient, event: &str, body: Value) -> Value {
    let ack = timeout(TEST_TIMEOUT, client.emit_with_ack(event, &body)).await;
    let ack = ack.unwrap_or_else(|_| panic!("{event} is not acknowledged"));
    let ack = ack.unwrap();
    assert_eq!(ack["ok"], true, "{event} {body}: {ack}");
    ack
}

/// Emits an event that must be rejected and returns the error code.
pub async fn emit_error_code(client: &mut SocketIoTestClient, event: &str, body: Value) -> String {
    let ack = timeout(TEST_TIMEOUT, client.emit_with_ack(event, &body)).await;
    let ack = ack.unwrap().unwrap();
    assert_eq!(ack["ok"], false, "{event} {body}: {ack}");
    let message = ack["error"]["message"].as_str();
    assert!(message.is_some_and(|it| !it.is_empty()), "{ack}");
    ack["error"]["code"].as_str().unwrap().to_owned()
}

/// Waits for the next event with this name.
pub async fn next_event_named(client: &mut SocketIoTestClient, name: &str) -> Value {
    let event = timeout(TEST_TIMEOUT, client.next_event_named(name)).await;
    let event = event.unwrap_or_else(|_| panic!("{name} does not arrive"));
    event.unwrap()
}

/// Waits for the next event.
async fn next(client: &mut SocketIoTestClient) -> (String, Value) {
    timeout(TEST_TIMEOUT, client.next_event())
        .await
        .unwrap()
        .unwrap()
}

/// Waits until the server has closed the connection.
async fn wait_for_close(client: &mut SocketIoTestClient) {
    let closed = timeout(TEST_TIMEOUT, async {
        while client.next_event().await.is_ok() {}
    });
    closed.await.expect("the server closes the connection");
}

pub async fn join(client: &mut SocketIoTestClient, conversation: &str) -> Value {
    let body = json!({ "conversationId": conversation });
    emit_ok(client, "conversation:join", body).await
}

pub async fn send(client: &mut SocketIoTestClient, conversation: &str, content: &str) -> Value {
    let body = json!({ "conversationId": conversation, "content": content });
    emit_ok(client, "message:send", body).await["message"].take()
}
