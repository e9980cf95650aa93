//! Test of a drain: a node gets SIGTERM and its clients move to another node.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use parlor_testkit::{SocketIoClientError, SocketIoTestClient, eventually};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::deployment::{Ground, World};
use crate::http::client::call;
use crate::tokens::{service, user};

const CLIENTS: usize = 1_000;
/// Timeout of a test step.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn address(world: &World, node: usize) -> SocketAddr {
    world.url(node).replace("http://", "").parse().unwrap()
}

async fn connect(address: SocketAddr, number: usize) -> SocketIoTestClient {
    let auth = json!({ "token": user(&format!("u{number}")), "deviceId": "phone" });
    eventually("the node accepts the client", async || {
        match SocketIoTestClient::connect(address, &auth).await {
            Ok(client) => Some(client),
            // Clients retry a handshake when the node is busy.
            Err(SocketIoClientError::Closed(_)) => None,
            Err(SocketIoClientError::Rejected(why)) => {
                assert_eq!(why["code"], "rate_limited", "{why}");
                None
            }
        }
    })
    .await
}

async fn assert_all_online(world: &World) -> Value {
    let count = call("GET", "/v1/presence/count").by(&service());
    count.at(&world.nodes[1]).await.ok()["count"].clone()
}

#[tokio::test]
async fn draining_a_node_moves_its_clients_without_an_offline_event() {
    // Long enough for all clients to reconnect.
    let grace = ("PARLOR_PRESENCE__GRACE", "30s");
    let mut world = World::with(Ground::ThreeNodes, &[grace]).await;
    let mut offline_events = world.events("events:user.offline").await;
    let first = address(&world, 0);
    let mut clients = join_all((0..CLIENTS).map(|number| connect(first, number))).await;
    eventually("all clients are online", async || {
        assert_all_online(&world).await == CLIENTS
    })
    .await;

    world.nodes[0].send_sigterm();
    let shutdowns = clients.iter_mut().map(|client| async {
        let closed = client.next_event_named("session:closed").await.unwrap();
        // The connection closes after this event.
        while client.next_event().await.is_ok() {}
        closed
    });
    let shutdowns = timeout(TEST_TIMEOUT, join_all(shutdowns)).await.unwrap();
    let pauses: Vec<u64> = shutdowns
        .iter()
        .map(|closed| {
            assert_eq!(closed["reason"], "shutdown", "{closed}");
            closed["reconnectInMs"].as_u64().unwrap()
        })
        .collect();
    let (least, most) = (pauses.iter().min(), pauses.iter().max());
    assert!(
        least < most && most <= Some(&5_000),
        "{least:?} to {most:?}"
    );
    let ended = world.nodes[0].wait_for_exit().await;
    assert!(ended.success(), "{}", world.nodes[0].output());

    let second = address(&world, 1);
    let clients = join_all((0..CLIENTS).map(|number| connect(second, number))).await;
    eventually("all clients are online again", async || {
        assert_all_online(&world).await == CLIENTS
    })
    .await;
    // An offline event would have been published before this marker.
    let mark = world.publish("events:user.offline", "mark").await;
    assert!(mark >= 1);
    let next = timeout(TEST_TIMEOUT, offline_events.next()).await.unwrap();
    assert_eq!(next.unwrap(), "mark");
    drop(clients);
}
