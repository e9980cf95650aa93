//! Tests of the presence routes and the keys that they write.

use std::collections::BTreeMap;

use parlor_testkit::{Redis, ServerProcess, eventually};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

use super::client::{call, embedded, on, sign_in};
use crate::tokens;

const ALICE: &str = "/v1/users/alice/presence";

#[tokio::test]
async fn a_status_is_set_and_read_and_the_documented_key_follows() {
    let redis = Redis::start().await;
    let node = on(&redis).await;
    let mut keys = redis.connection().await;
    let alice = tokens::user("alice");

    let unknown = call("GET", ALICE).by(&alice).at(&node).await.ok();
    let nobody = json!({ "userId": "alice", "status": "offline", "lastSeen": null, "version": 0 });
    assert_eq!(unknown, nobody);

    let online = set(&node, json!({ "status": "online" })).await;
    assert_eq!(online["status"], "online");
    assert_eq!(
        online.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["userId", "status", "lastSeen", "version"]
    );
    let devices = shown(&mut keys, "alice").await;
    assert_eq!(devices.keys().collect::<Vec<_>>(), ["api"]);
    for name in ["serverId", "connectedAt", "refreshedAt"] {
        assert!(devices["api"][name].is_string(), "{devices:?}");
    }
    let left: i64 = keys.ttl("presence:user:alice").await.unwrap();
    assert!((1..=60).contains(&left), "{left}");

    let mut version = online["version"].as_u64().unwrap();
    for (status, is_shown) in [
        ("away", true),
        ("busy", true),
        ("offline", false),
        ("online", true),
    ] {
        let answer = set(&node, json!({ "status": status })).await;
        assert_eq!(answer["status"], status);
        assert_eq!(call("GET", ALICE).by(&alice).at(&node).await.ok(), answer);
        let risen = answer["version"].as_u64().unwrap();
        assert!(risen > version, "{status}: {risen} after {version}");
        version = risen;
        let devices = shown(&mut keys, "alice").await;
        assert_eq!(!devices.is_empty(), is_shown, "{status}: {devices:?}");
    }

    let tablet = set(&node, json!({ "status": "online", "deviceId": "tablet" })).await;
    assert_eq!(tablet["version"], version, "nothing has changed");
    let devices = shown(&mut keys, "alice").await;
    assert_eq!(devices.keys().collect::<Vec<_>>(), ["api", "tablet"]);
}

#[tokio::test]
async fn a_heartbeat_registers_a_device_and_a_delete_ends_it() {
    let redis = Redis::start().await;
    let node = on(&redis).await;
    let mut keys = redis.connection().await;
    let alice = tokens::user("alice");
    let beat = async |body: &str| {
        let beat = call("POST", "/v1/users/alice/presence/heartbeat");
        beat.by(&alice).body(body).at(&node).await.ok()
    };
    for body in ["", "{}", r#"{"deviceId":"phone"}"#, r#"{"deviceId":null}"#] {
        assert_eq!(beat(body).await, json!({ "nextInMs": 20_000 }), "{body}");
    }
    eventually("both are registered", async || {
        let devices = shown(&mut keys, "alice").await;
        devices.keys().collect::<Vec<_>>() == ["api", "phone"]
    })
    .await;

    let devices = "/v1/users/alice/presence/devices";
    let listed = call("GET", devices).by(&alice).at(&node).await.ok();
    let listed = listed["devices"].as_array().unwrap();
    let named: Vec<_> = listed.iter().map(|it| &it["deviceId"]).collect();
    assert_eq!(named, ["api", "phone"]);
    for name in ["serverId", "connectedAt", "expiresAt"] {
        assert!(listed[0][name].is_string(), "{listed:?}");
    }

    let end = async |device: &str| {
        let delete = call("DELETE", &format!("{devices}/{device}"));
        delete.by(&alice).at(&node).await.ok()
    };
    assert_eq!(end("phone").await["status"], "online");
    assert_eq!(end("phone").await["status"], "online", "removed already");
    let gone = end("api").await;
    assert_eq!(gone["status"], "offline");
    let seen: Option<String> = keys.get("lastseen:alice").await.unwrap();
    assert_eq!(gone["lastSeen"], json!(seen));
    assert!(shown(&mut keys, "alice").await.is_empty());
    let listed = call("GET", devices).by(&alice).at(&node).await.ok();
    assert_eq!(listed, json!({ "devices": [] }));
}

#[tokio::test]
async fn many_statuses_are_returned_in_the_requested_order() {
    let redis = Redis::start().await;
    for node in [embedded().await, on(&redis).await] {
        set(&node, json!({ "status": "busy" })).await;
        set(&node, json!({ "status": "online" })).await;
        let ask = async |ids: Vec<String>| {
            let query = call("POST", "/v1/presence/query").by(&tokens::user("bob"));
            query.json(json!({ "userIds": ids })).at(&node).await
        };
        let mut ids: Vec<_> = (0..1_000).map(|n| format!("user-{n}")).collect();
        ids[700] = "alice".into();
        ids[701] = "alice".into();
        let answer = ask(ids.clone()).await.ok();
        let users = answer["users"].as_array().unwrap();
        let answered: Vec<_> = users
            .iter()
            .map(|it| it["userId"].as_str().unwrap())
            .collect();
        assert_eq!(answered, ids);
        let online: Vec<_> = (0..1_000)
            .filter(|&n| users[n]["status"] == "online")
            .collect();
        assert_eq!(online, [700, 701]);
        assert_eq!(ask(vec![]).await.ok(), json!({ "users": [] }));

        ids.push("one-more".into());
        let detail = ask(ids).await.refused(400, "too_many");
        assert!(
            detail.contains("1001") && detail.contains("1000"),
            "{detail}"
        );
        ask(vec!["a b".into()]).await.refused(400, "invalid_id");
    }
}

#[tokio::test]
async fn connected_users_are_counted() {
    let redis = Redis::start().await;
    for node in [embedded().await, on(&redis).await] {
        for user in ["alice", "bob", "carol"] {
            let put = call("PUT", &format!("/v1/users/{user}/presence"));
            let put = put.by(&tokens::service());
            put.json(json!({ "status": "online" })).at(&node).await.ok();
        }
        let hidden = json!({ "status": "offline" });
        set(&node, hidden).await;
        let bob = "/v1/users/bob/presence/devices/api";
        let delete = call("DELETE", bob).by(&tokens::user("bob"));
        delete.at(&node).await.ok();
        eventually(
            "alice, who is invisible, and carol are counted",
            async || {
                let count = call("GET", "/v1/presence/count").by(&tokens::user("bob"));
                let count = count.at(&node).await.ok();
                if count == json!({ "count": 2 }) {
                    Ok(())
                } else {
                    Err(count)
                }
            },
        )
        .await;
    }
}

#[tokio::test]
async fn paths_are_percent_decoded() {
    let node = embedded().await;
    let who = "alice@example.com";
    let token = tokens::user(who);
    sign_in(&node, &token).await;
    for path in [
        "/v1/users/alice%40example.com/presence",
        "/v1/users/alice@example.com/presence",
        "/v1/users/%61lice%40example%2Ecom/presence",
    ] {
        let put = call("PUT", path).by(&token);
        let answer = put.json(json!({ "status": "online" })).at(&node).await.ok();
        assert_eq!(answer["userId"], who, "{path}");
    }
    let device = "/v1/users/alice%40example.com/presence/devices/a%7Cpi";
    let delete = call("DELETE", device).by(&token).at(&node).await;
    assert_eq!(delete.ok()["status"], "online", "another device");
    for (wrong, code) in [
        ("/v1/users/%ff%fe/presence", "invalid_request"),
        ("/v1/users//presence", "invalid_id"),
        ("/v1/users/%zz/presence", "invalid_id"),
        ("/v1/users/a%20b/presence", "invalid_id"),
        ("/v1/users/a%2Fb/presence", "invalid_id"),
        ("/v1/users/a%00b/presence", "invalid_id"),
        ("/v1/users/%7Balice%7D/presence", "invalid_id"),
    ] {
        let answer = call("GET", wrong).by(&token).at(&node).await;
        answer.refused(400, code);
    }
}

#[tokio::test]
async fn body_overrides_query_and_the_path_overrides_both() {
    let node = embedded().await;
    let alice = tokens::user("alice");
    let ask = async |path: &str, body: &str| {
        let put = call("PUT", path).by(&alice).body(body);
        put.at(&node).await
    };
    let online = ask(&format!("{ALICE}?status=online&deviceId=a%2Bb&x=1"), "").await;
    assert_eq!(online.ok()["status"], "online");
    let both = ask(&format!("{ALICE}?status=away"), r#"{"status":"busy"}"#).await;
    assert_eq!(both.ok()["status"], "busy");
    let other = ask(ALICE, r#"{"status":"away","userId":"bob"}"#).await;
    assert_eq!(other.ok()["userId"], "alice");
    let other = ask(&format!("{ALICE}?userId=bob&status=away"), "{}").await;
    assert_eq!(other.ok()["userId"], "alice");
}

async fn set(node: &ServerProcess, body: Value) -> Value {
    let put = call("PUT", ALICE).by(&tokens::user("alice"));
    put.json(body).at(node).await.ok()
}

/// Devices in the documented key.
async fn shown(keys: &mut MultiplexedConnection, user: &str) -> BTreeMap<String, Value> {
    let key = format!("presence:user:{user}");
    let fields: BTreeMap<String, String> = keys.hgetall(key).await.unwrap();
    let read = |text: String| serde_json::from_str(&text).unwrap();
    fields
        .into_iter()
        .map(|(id, text)| (id, read(text)))
        .collect()
}
