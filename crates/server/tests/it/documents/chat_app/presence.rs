//! Checks of section 1: one document per user.

use parlor_testkit::eventually;
use serde_json::{Value, json};

use crate::documents::side_by_side::SideBySide;
use crate::http::client::call;
use crate::tokens::service;

/// The document with the documented fields and TTL while a user is connected to Parlor.
pub(super) async fn the_document_of_a_connected_user(run: &SideBySide) {
    let client = run.connect("user-123").await;
    let document = run.old.call("document", json!(["user-123"])).await;
    let last_seen = document["lastSeen"].as_u64().unwrap();
    assert!(last_seen > 1_700_000_000_000, "in ms: {document}");
    let expected = json!({ "userId": "user-123", "status": "online", "lastSeen": last_seen });
    assert_eq!(document, expected);
    let text = run.old.run("GET presence:user-123").await;
    assert_eq!(text, expected_text(&expected), "without blanks");
    assert_ttl(&run.old.run("TTL presence:user-123").await);
    close(run, client, "user-123").await;
}

fn expected_text(document: &Value) -> String {
    let (user, seen) = (&document["userId"], &document["lastSeen"]);
    format!(r#"{{"userId":{user},"status":"online","lastSeen":{seen}}}"#)
}

/// Asserts that nearly 300 s are left. The test never runs for longer than the tolerance.
fn assert_ttl(left: &Value) {
    let left = left.as_i64().unwrap();
    assert!((200..=300).contains(&left), "{left}");
}

/// Disconnects a user and waits until the old service sees it.
async fn close(run: &SideBySide, client: parlor_testkit::SocketIoTestClient, user: &str) {
    client.disconnect().await.unwrap();
    eventually("the document is deleted", async || {
        run.old.call("status", json!([user])).await == "offline"
    })
    .await;
}

/// `KEYS presence:*` finds the online users of both sides and no other key.
pub(super) async fn one_key_per_online_user(run: &SideBySide) {
    let nobody = async || run.old.run("KEYS presence:*").await == json!([]);
    // Lost connections of earlier checks are in their grace period.
    eventually("the users of earlier checks are offline", nobody).await;
    let client = run.connect("user-1").await;
    run.old.call("setOnline", json!(["user-2"])).await;
    let mut keys = run.old.run("KEYS presence:*").await;
    let keys = keys.as_array_mut().unwrap();
    keys.sort_by_key(ToString::to_string);
    assert_eq!(keys, &["presence:user-1", "presence:user-2"]);
    close(run, client, "user-1").await;
    run.old.call("disconnect", json!(["user-2"])).await;
    assert!(nobody().await);
}

/// The old service asks the key, and finds the users who are connected to Parlor.
pub(super) async fn a_push_goes_to_users_who_are_offline(run: &SideBySide) {
    let client = run.connect("user-3").await;
    run.old.call("setOnline", json!(["user-4"])).await;
    let users = json!([["user-3", "user-4", "user-5"]]);
    let targets = run.old.call("pushTargets", users.clone()).await;
    assert_eq!(targets, json!(["user-5"]));
    close(run, client, "user-3").await;
    let targets = run.old.call("pushTargets", users).await;
    assert_eq!(targets, json!(["user-3", "user-5"]));
    run.old.call("disconnect", json!(["user-4"])).await;
}

/// A heartbeat moves `lastSeen` and the TTL, over HTTP and over Socket.IO.
pub(super) async fn a_heartbeat_writes_the_document_again(run: &SideBySide) {
    let mut client = run.connect("user-6").await;
    run.old.run("EXPIRE presence:user-6 100").await;
    let before = run.old.call("document", json!(["user-6"])).await;
    crate::socketio::emit_ok(&mut client, "heartbeat", json!({})).await;
    eventually("the document is written again", async || {
        let after = run.old.call("document", json!(["user-6"])).await;
        after["lastSeen"].as_u64() > before["lastSeen"].as_u64()
    })
    .await;
    assert_ttl(&run.old.run("TTL presence:user-6").await);
    close(run, client, "user-6").await;
    let beat = call("POST", "/v1/users/user-6/presence/heartbeat");
    let reply = beat.by(&service()).at(&run.node).await.ok();
    assert_eq!(reply["nextInMs"], 60_000);
    eventually("the device is registered", async || {
        run.old.call("status", json!(["user-6"])).await == "online"
    })
    .await;
    let remove = call("DELETE", "/v1/users/user-6/presence/devices/api");
    remove.by(&service()).at(&run.node).await.ok();
    assert_eq!(run.old.call("status", json!(["user-6"])).await, "offline");
}

/// After the TTL of the old service's document, both sides read offline.
pub(super) async fn a_key_that_expires_is_offline_on_both_sides(run: &SideBySide) {
    run.old.call("setOnline", json!(["user-7"])).await;
    run.old.run("PEXPIRE presence:user-7 1").await;
    eventually("the document has expired", async || {
        run.old.call("status", json!(["user-7"])).await == "offline"
    })
    .await;
    assert_eq!(run.presence("user-7").await["status"], "offline");
}

/// Parlor reads what the old service writes, with the values of the document.
pub(super) async fn the_document_of_the_old_service_is_read(run: &SideBySide) {
    let line = r#"SETEX presence:user-8 300 '{"userId":"user-8","status":"online","lastSeen":1704067200000}'"#;
    run.old.run(line).await;
    let presence = run.presence("user-8").await;
    assert_eq!(presence["status"], "online");
    assert_eq!(presence["external"], true);
    run.old.run("DEL presence:user-8").await;
    assert_eq!(run.presence("user-8").await["status"], "offline");
}

/// Each side finds the users of the other side only while they are online.
pub(super) async fn a_get_finds_users_of_both_sides(run: &SideBySide) {
    let client = run.connect("user-9").await;
    run.old.call("setOnline", json!(["user-10"])).await;
    for (user, status) in [
        ("user-9", "online"),
        ("user-10", "online"),
        ("user-11", "offline"),
    ] {
        assert_eq!(
            run.old.call("status", json!([user])).await,
            status,
            "{user}"
        );
        assert_eq!(run.presence(user).await["status"], status, "{user}");
    }
    close(run, client, "user-9").await;
    run.old.call("disconnect", json!(["user-10"])).await;
}

/// A disconnect deletes the document at once, and a heartbeat that comes later does not write it again.
pub(super) async fn a_disconnect_deletes_the_document(run: &SideBySide) {
    let mut client = run.connect("user-12").await;
    assert_eq!(run.old.call("status", json!(["user-12"])).await, "online");
    // The heartbeat waits in the buffer of the node while its socket disconnects.
    crate::socketio::emit_ok(&mut client, "heartbeat", json!({})).await;
    close(run, client, "user-12").await;
    // A heartbeat of another user is written after it.
    let mut other = run.connect("user-13").await;
    let before = run.old.call("document", json!(["user-13"])).await;
    crate::socketio::emit_ok(&mut other, "heartbeat", json!({})).await;
    eventually("the heartbeats are written", async || {
        run.old.call("document", json!(["user-13"])).await != before
    })
    .await;
    assert_eq!(run.old.call("status", json!(["user-12"])).await, "offline");
    close(run, other, "user-13").await;
    assert_eq!(run.old.run("DEL presence:user-13").await, 0);
}

/// The three answers of `TTL` in the document.
pub(super) async fn ttl_tells_connected_and_missing_users_apart(run: &SideBySide) {
    let client = run.connect("user-14").await;
    assert_ttl(&run.old.run("TTL presence:user-14").await);
    close(run, client, "user-14").await;
    assert_eq!(run.old.run("TTL presence:user-14").await, -2);
    assert_eq!(run.old.call("runJob", json!(["table", 0])).await, "run");
    assert_eq!(run.old.run("TTL cron:last-run:table").await, -1);
}

/// A subscriber of the notifications learns that a presence has ended.
pub(super) async fn the_end_of_a_key_is_notified(run: &SideBySide) {
    const EXPIRED: &str = "__keyevent@0__:expired";
    run.old.run("CONFIG SET notify-keyspace-events Ex").await;
    run.old.subscribe(EXPIRED).await;
    let client = run.connect("user-15").await;
    run.old.run("PEXPIRE presence:user-15 1").await;
    let key = "presence:user-15";
    run.old.next_message(EXPIRED, |name| name == key).await;
    client.disconnect().await.unwrap();
}
