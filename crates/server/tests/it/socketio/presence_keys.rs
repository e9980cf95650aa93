//! Presence of sockets in the documented keys, and after the end of the process.

use parlor_testkit::{Redis, eventually};
use redis::AsyncCommands;
use serde_json::{Value, json};

use super::{connect, emit_ok};
use crate::http::client::{call, embedded, node, ready};
use crate::tokens::service;

#[tokio::test]
async fn two_tabs_of_a_device_are_two_sockets_and_end_with_the_last_node() {
    let redis = Redis::start().await;
    let options = node().env("PARLOR_STORE__URL", redis.url());
    let options = options.env("PARLOR_KEYS__PRESET", "chat-service");
    let mut node = ready(options.env("PARLOR_STORE__TIMEOUT", "10s")).await;
    let _tabs = [connect(&node, "bob").await, connect(&node, "bob").await];
    let mut keys = redis.connection().await;
    let sockets: Vec<String> = keys.smembers("user:bob:sockets").await.unwrap();
    assert_eq!(sockets.len(), 2, "{sockets:?}");
    for socket in sockets {
        let owner: String = keys.get(format!("socket:{socket}:user")).await.unwrap();
        assert_eq!(owner, "bob");
    }
    let forever: i64 = keys.ttl("user:bob:online").await.unwrap();
    assert_eq!(forever, -1);
    assert!(node.terminate_and_wait().await.success());
    // Lease and grace period.
    let left: i64 = keys.ttl("user:bob:online").await.unwrap();
    assert!((0..=10).contains(&left), "{left}");
}

#[tokio::test]
async fn an_acknowledged_status_survives_kill_9() {
    let mut node = embedded().await;
    let mut bob = connect(&node, "bob").await;
    emit_ok(&mut bob, "presence:set", json!({ "status": "busy" })).await;
    let presence = || call("GET", "/v1/users/bob/presence").by(&service());
    let before = presence().at(&node).await.ok();
    assert_eq!(before["status"], "busy");
    node.restart().await;
    let after = eventually("the node is ready", async || {
        let answer = presence().at(&node).await;
        (answer.status == 200).then(|| answer.ok())
    })
    .await;
    let version = |status: &Value| status["version"].as_u64().unwrap();
    assert_eq!(after["status"], "busy");
    assert!(version(&after) > version(&before), "{after} after {before}");
    let unknown = call("GET", "/v1/users/nobody/presence").by(&service());
    let unknown = unknown.at(&node).await.ok();
    assert!(version(&unknown) > version(&before), "{unknown}");
}
