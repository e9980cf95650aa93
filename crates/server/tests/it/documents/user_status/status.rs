//! Checks of the operations and flows: one word per user. The old service calls Parlor's methods over gRPC.

use parlor_testkit::eventually;
use serde_json::{Value, json};

use crate::documents::side_by_side::SideBySide;
use crate::tokens::service;

/// Lets the old service call Parlor.
pub(super) async fn open_parlor(run: &SideBySide) {
    let address = run.node.grpc_address().to_string();
    let arguments = json!([address, service()]);
    run.old.call("openParlor", arguments).await;
}

/// Calls a method of the document at Parlor.
pub(super) async fn parlor(run: &SideBySide, method: &str, fields: Value) -> Value {
    run.old.call("callParlor", json!([method, fields])).await
}

pub(super) async fn set(run: &SideBySide, user: &str, status: &str) {
    let fields = json!({ "user_id": user, "status": status });
    let reply = parlor(run, "SetUserStatus", fields).await;
    assert_eq!(reply["status"], status, "{reply}");
}

/// Status that Parlor reads over gRPC.
pub(super) async fn get(run: &SideBySide, user: &str) -> Value {
    let mut reply = parlor(run, "GetUserStatus", json!({ "user_id": user })).await;
    reply["status"].take()
}

/// Value of the key; null if it is missing.
pub(super) async fn value(run: &SideBySide, user: &str) -> Value {
    run.old.run(&format!("GET user:status:{user}")).await
}

pub(super) async fn ttl(run: &SideBySide, user: &str) -> i64 {
    let left = run.old.run(&format!("TTL user:status:{user}")).await;
    left.as_i64().unwrap()
}

/// The key lives for seconds only, so a check that reads it repeats itself on a machine that was too slow.
pub(super) async fn online_for_30_seconds(run: &SideBySide) {
    let left = eventually("the key is read in time", async || {
        set(run, "123", "ONLINE").await;
        let is_online = value(run, "123").await == "online";
        let left = ttl(run, "123").await;
        (is_online && left > 0).then_some(left)
    })
    .await;
    assert!(left <= 30, "{left}");
    assert_eq!(run.old.run("TYPE user:status:123").await, "string");
    set(run, "123", "OFFLINE").await;
}

/// The document has no other word: away and busy are stored as online.
pub(super) async fn away_and_busy_are_online(run: &SideBySide) {
    for status in ["AWAY", "BUSY"] {
        eventually("the key is read in time", async || {
            set(run, "away", "ONLINE").await;
            let fields = json!({ "user_id": "away", "status": status });
            let reply = parlor(run, "SetUserStatus", fields).await;
            reply["status"] == status && value(run, "away").await == "online"
        })
        .await;
    }
    set(run, "away", "OFFLINE").await;
    assert_eq!(value(run, "away").await, "offline");
}

/// `online` of either side is read by the other.
pub(super) async fn both_sides_read_online(run: &SideBySide) {
    eventually("the keys are read in time", async || {
        run.old.run(r#"SET user:status:old "online" EX 30"#).await;
        set(run, "new", "ONLINE").await;
        let old = [get(run, "old").await, get(run, "new").await];
        let new = run.old.call("statuses", json!([["old", "new"]])).await;
        old == ["ONLINE", "ONLINE"] && new == json!(["online", "online"])
    })
    .await;
    set(run, "old", "OFFLINE").await;
    set(run, "new", "OFFLINE").await;
}

/// `offline` of either side is read by the other, and stays for 24 h.
pub(super) async fn both_sides_read_offline(run: &SideBySide) {
    run.old
        .run(r#"SET user:status:off-old "offline" EX 86400"#)
        .await;
    set(run, "off-new", "OFFLINE").await;
    for user in ["off-old", "off-new"] {
        assert_eq!(get(run, user).await, "OFFLINE", "{user}");
        assert_eq!(
            run.old.call("status", json!([user])).await,
            "offline",
            "{user}"
        );
        let left = ttl(run, user).await;
        assert!((86_000..=86_400).contains(&left), "{user}: {left}");
    }
}

/// An explicit `offline` is written with and without a device, and a later heartbeat does not change it.
pub(super) async fn offline_for_24_hours_with_and_without_a_device(run: &SideBySide) {
    set(run, "with", "ONLINE").await;
    for user in ["with", "without"] {
        set(run, user, "OFFLINE").await;
        assert_eq!(value(run, user).await, "offline", "{user}");
        parlor(run, "SendHeartbeat", json!({ "user_id": user })).await;
    }
    heartbeats_are_written(run).await;
    for user in ["with", "without"] {
        assert_eq!(value(run, user).await, "offline", "{user}");
        let left = ttl(run, user).await;
        assert!((86_000..=86_400).contains(&left), "{user}: {left}");
    }
    // The last device is gone: the word stays.
    let device = crate::http::client::call("DELETE", "/v1/users/with/presence/devices/api");
    device.by(&service()).at(&run.node).await.ok();
    assert_eq!(value(run, "with").await, "offline");
    assert!(ttl(run, "with").await > 86_000);
    // Only a status or a connect ends it.
    let client = run.connect("with").await;
    assert_eq!(value(run, "with").await, "online");
    client.disconnect().await.unwrap();
    eventually("the last device is gone", async || {
        value(run, "with").await.is_null()
    })
    .await;
}

/// Waits until Parlor has written the heartbeats that it has accepted before.
pub(super) async fn heartbeats_are_written(run: &SideBySide) {
    eventually("a later heartbeat has been written", async || {
        run.old.call("setOnline", json!(["probe"])).await;
        run.old.run("EXPIRE user:status:probe 20").await;
        parlor(run, "SendHeartbeat", json!({ "user_id": "probe" })).await;
        let extended = eventually("the probe is extended or expired", async || {
            let left = ttl(run, "probe").await;
            (!(0..=20).contains(&left)).then_some(left)
        });
        extended.await > 20
    })
    .await;
}

/// `online`, `offline` and a missing key.
pub(super) async fn the_three_answers_are_the_same_on_both_sides(run: &SideBySide) {
    eventually("the keys are read in time", async || {
        run.old.call("setOnline", json!(["on"])).await;
        let is_on = get(run, "on").await == "ONLINE";
        is_on && run.old.call("status", json!(["on"])).await == "online"
    })
    .await;
    run.old.call("setOffline", json!(["on"])).await;
    for user in ["on", "never-seen"] {
        assert_eq!(get(run, user).await, "OFFLINE", "{user}");
        assert_eq!(
            run.old.call("status", json!([user])).await,
            "offline",
            "{user}"
        );
    }
    assert!(value(run, "never-seen").await.is_null());
}

/// MGET of the old service and GetMultipleUserStatus agree, with users of both sides.
pub(super) async fn many_users_are_read_at_once(run: &SideBySide) {
    set(run, "456", "OFFLINE").await;
    let ids = json!(["123", "456", "789"]);
    eventually("the keys are read in time", async || {
        set(run, "123", "ONLINE").await;
        let many = "MGET user:status:123 user:status:456 user:status:789";
        let words = run.old.run(many).await == json!(["online", "offline", null]);
        let reply = parlor(run, "GetMultipleUserStatus", json!({ "user_ids": ids })).await;
        let users = reply["users"].as_array().unwrap().iter();
        let statuses: Vec<&Value> = users.map(|user| &user["status"]).collect();
        words && statuses == ["ONLINE", "OFFLINE", "OFFLINE"]
    })
    .await;
    set(run, "123", "OFFLINE").await;
}

/// A heartbeat of either side extends an `online` of either side to 30 s, and nothing else.
pub(super) async fn a_heartbeat_extends_the_key_while_it_is_online(run: &SideBySide) {
    for by_parlor in [true, false] {
        eventually("the key is extended before it expires", async || {
            if by_parlor {
                set(run, "beat", "ONLINE").await;
            } else {
                run.old.call("setOnline", json!(["beat"])).await;
            }
            run.old.run("EXPIRE user:status:beat 20").await;
            assert_eq!(run.old.call("heartbeat", json!(["beat"])).await, true);
            let by_old = ttl(run, "beat").await > 20;
            run.old.run("EXPIRE user:status:beat 20").await;
            parlor(run, "SendHeartbeat", json!({ "user_id": "beat" })).await;
            heartbeats_are_written(run).await;
            by_old && ttl(run, "beat").await > 20
        })
        .await;
    }
    // Both refuse to extend `offline`.
    run.old.call("setOffline", json!(["beat"])).await;
    assert_eq!(run.old.call("heartbeat", json!(["beat"])).await, false);
    parlor(run, "SendHeartbeat", json!({ "user_id": "beat" })).await;
    heartbeats_are_written(run).await;
    assert_eq!(value(run, "beat").await, "offline");
    let left = ttl(run, "beat").await;
    assert!((86_000..=86_400).contains(&left), "{left}");
    assert_eq!(get(run, "beat").await, "OFFLINE");
}

/// A heartbeat writes no key for a user without a status.
pub(super) async fn a_heartbeat_of_an_unknown_user_registers_nobody(run: &SideBySide) {
    parlor(run, "SendHeartbeat", json!({ "user_id": "ghost" })).await;
    assert_eq!(run.old.call("heartbeat", json!(["ghost"])).await, false);
    heartbeats_are_written(run).await;
    assert!(value(run, "ghost").await.is_null());
    assert_eq!(get(run, "ghost").await, "OFFLINE");
}

/// A key that expires is offline on both sides.
pub(super) async fn a_key_that_expires_is_offline(run: &SideBySide) {
    run.old.call("setOnline", json!(["gone"])).await;
    run.old.run("PEXPIRE user:status:gone 1").await;
    eventually("the key has expired", async || {
        value(run, "gone").await.is_null()
    })
    .await;
    assert_eq!(get(run, "gone").await, "OFFLINE");
    assert_eq!(run.old.call("status", json!(["gone"])).await, "offline");
}

/// Redis notifies the end of a key of Parlor that it expires itself.
pub(super) async fn the_end_of_a_key_is_notified(run: &SideBySide) {
    const EXPIRED: &str = "__keyevent@0__:expired";
    run.old.run("CONFIG SET notify-keyspace-events Ex").await;
    run.old.subscribe(EXPIRED).await;
    set(run, "ends", "ONLINE").await;
    run.old.run("PEXPIRE user:status:ends 1").await;
    let key = "user:status:ends";
    run.old.next_message(EXPIRED, |name| name == key).await;
}
