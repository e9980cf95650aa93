//! Checks of section 1: one hash per user, one field per socket.

use std::collections::BTreeMap;

use parlor_testkit::{SocketIoTestClient, eventually};
use serde_json::{Value, json};

use crate::documents::side_by_side::SideBySide;
use crate::socketio::emit_ok;

/// Fields of a user with their values as JSON.
async fn sockets(run: &SideBySide, user: &str) -> BTreeMap<String, Value> {
    let reply = run.old.run(&format!("HGETALL presence:user:{user}")).await;
    let texts: Vec<&str> = reply
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap())
        .collect();
    let pairs = texts.chunks(2).map(|pair| {
        let value = serde_json::from_str(pair[1]).unwrap();
        (pair[0].to_owned(), value)
    });
    pairs.collect()
}

fn socket_id(client: &SocketIoTestClient) -> String {
    client.connect_payload["sid"].as_str().unwrap().to_owned()
}

/// Asserts that nearly 60 s are left. No check runs for longer than the tolerance.
async fn assert_ttl(run: &SideBySide, user: &str) {
    let left = run.old.run(&format!("TTL presence:user:{user}")).await;
    let left = left.as_i64().unwrap();
    assert!((20..=60).contains(&left), "{user}: {left}");
}

async fn close(run: &SideBySide, client: SocketIoTestClient, user: &str) {
    let id = socket_id(&client);
    client.disconnect().await.unwrap();
    eventually("the field is removed", async || {
        !sockets(run, user).await.contains_key(&id)
    })
    .await;
}

/// Two tabs of one device are two fields, each with the server and the time of its connection.
pub(super) async fn each_connection_is_a_field(run: &SideBySide) {
    let tabs = [run.connect("ann").await, run.connect("ann").await];
    let stored = sockets(run, "ann").await;
    assert_eq!(stored.len(), 2, "{stored:?}");
    for tab in &tabs {
        let value = &stored[&socket_id(tab)];
        for name in ["serverId", "connectedAt"] {
            assert!(value[name].is_string(), "{value}");
        }
        let at = value["connectedAt"].as_str().unwrap();
        assert!(
            at.ends_with('Z') && at.len() == 24,
            "as in the document: {at}"
        );
    }
    assert_eq!(run.old.run("TYPE presence:user:ann").await, "hash");
    assert_ttl(run, "ann").await;
    for tab in tabs {
        close(run, tab, "ann").await;
    }
}

/// A heartbeat sets `refreshedAt` and the TTL. It keeps `serverId` and `connectedAt`, which the document loses.
pub(super) async fn a_heartbeat_renews_field_and_ttl(run: &SideBySide) {
    let mut client = run.connect("ben").await;
    let id = socket_id(&client);
    let before = sockets(run, "ben").await.remove(&id).unwrap();
    run.old.run("EXPIRE presence:user:ben 15").await;
    let reply = emit_ok(&mut client, "heartbeat", json!({})).await;
    assert_eq!(reply["nextInMs"], 20_000);
    let after = eventually("the heartbeat is written", async || {
        let value = sockets(run, "ben").await.remove(&id).unwrap();
        (value["refreshedAt"].as_str() > before["refreshedAt"].as_str()).then_some(value)
    })
    .await;
    for name in ["serverId", "connectedAt"] {
        assert_eq!(after[name], before[name], "{name}");
    }
    assert_ttl(run, "ben").await;
    close(run, client, "ben").await;
}

/// Each side removes its own field only.
pub(super) async fn a_disconnect_removes_its_own_field(run: &SideBySide) {
    let client = run.connect("cyd").await;
    let id = socket_id(&client);
    run.old.call("connect", json!(["cyd", "old-1"])).await;
    run.old.call("connect", json!(["cyd", "old-2"])).await;
    run.old.call("disconnect", json!(["cyd", "old-1"])).await;
    let fields: Vec<String> = sockets(run, "cyd").await.into_keys().collect();
    assert!(fields.len() == 2 && fields.contains(&id), "{fields:?}");
    close(run, client, "cyd").await;
    let fields: Vec<String> = sockets(run, "cyd").await.into_keys().collect();
    assert_eq!(fields, ["old-2"]);
    run.old.call("disconnect", json!(["cyd", "old-2"])).await;
    assert_eq!(run.old.run("EXISTS presence:user:cyd").await, 0);
}

/// The key is gone with the last field, whichever side removes it.
pub(super) async fn the_last_disconnect_ends_the_key(run: &SideBySide) {
    let client = run.connect("dee").await;
    run.old.call("connect", json!(["dee", "old-1"])).await;
    // The old service finds another field and keeps the key.
    run.old.call("disconnect", json!(["dee", "old-1"])).await;
    assert_eq!(run.old.run("HLEN presence:user:dee").await, 1);
    assert_eq!(run.presence("dee").await["status"], "online");
    close(run, client, "dee").await;
    assert_eq!(run.old.run("EXISTS presence:user:dee").await, 0);
    assert_eq!(run.presence("dee").await["status"], "offline");
}

/// Each side finds the users of the other side only while they are online.
pub(super) async fn exists_finds_users_of_both_sides(run: &SideBySide) {
    let client = run.connect("eve").await;
    run.old.call("connect", json!(["fay", "old-1"])).await;
    for (user, is_online) in [("eve", true), ("fay", true), ("gus", false)] {
        assert_eq!(
            run.old.call("isOnline", json!([user])).await,
            is_online,
            "{user}"
        );
        let status = if is_online { "online" } else { "offline" };
        assert_eq!(run.presence(user).await["status"], status, "{user}");
    }
    assert_eq!(run.presence("fay").await["external"], true);
    close(run, client, "eve").await;
    run.old.call("disconnect", json!(["fay", "old-1"])).await;
}

/// The sockets of the example count, and Parlor's field is the third.
pub(super) async fn the_example_of_the_document_is_read(run: &SideBySide) {
    let connected = r#"'{"serverId":"gateway-1","connectedAt":"2026-02-25T10:00:00.000Z"}'"#;
    for socket in ["socket-id-aaa", "socket-id-bbb"] {
        let line = format!("HSET presence:user:abc-123 {socket} {connected}");
        run.old.run(&line).await;
    }
    run.old.run("EXPIRE presence:user:abc-123 60").await;
    assert_eq!(run.presence("abc-123").await["external"], true);
    let client = run.connect("abc-123").await;
    assert_eq!(run.old.run("HLEN presence:user:abc-123").await, 3);
    let refreshed = r#"{"refreshedAt":"2026-02-25T10:00:20.000Z"}"#;
    let line = format!("HSET presence:user:abc-123 socket-id-aaa '{refreshed}'");
    run.old.run(&line).await;
    close(run, client, "abc-123").await;
    let value = run
        .old
        .run("HGET presence:user:abc-123 socket-id-aaa")
        .await;
    assert_eq!(value, refreshed);
    assert_eq!(run.presence("abc-123").await["external"], true);
    for socket in ["socket-id-aaa", "socket-id-bbb"] {
        run.old.call("disconnect", json!(["abc-123", socket])).await;
    }
    assert_eq!(run.presence("abc-123").await["status"], "offline");
}

/// A gateway that dies leaves its field behind. Parlor leaves the TTL of the hash to it, so the key ends.
pub(super) async fn the_ttl_ends_the_fields_of_a_dead_gateway(run: &SideBySide) {
    run.old.call("connect", json!(["hal", "old-1"])).await;
    let client = run.connect("hal").await;
    close(run, client, "hal").await;
    assert_ttl(run, "hal").await;
    run.old.run("PEXPIRE presence:user:hal 1").await;
    eventually("the key has expired", async || {
        run.old.call("isOnline", json!(["hal"])).await == false
    })
    .await;
    assert_eq!(run.presence("hal").await["status"], "offline");
}
