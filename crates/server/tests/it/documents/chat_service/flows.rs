//! Checks of the rest: configuration, usage examples, naming, TTLs, monitoring, cleanup, future additions.

use parlor_testkit::Redis;
use serde_json::json;

use crate::documents::monitor::test_connection;
use crate::documents::old_service::OldService;
use crate::documents::side_by_side::SideBySide;
use crate::http::client::{call, node, ready};
use crate::tokens::{service, user};

/// Parlor reads the variables that the service's environment has.
pub(super) async fn variables_of_the_document_configure_parlor(_run: &SideBySide) {
    let redis = Redis::options()
        .password("your_secure_password")
        .start()
        .await;
    let old = OldService::start("chat_service.mjs", &redis).await;
    let options = node()
        .env("REDIS_HOST", "127.0.0.1")
        .env("REDIS_PORT", redis.port().to_string())
        .env("REDIS_PASSWORD", "your_secure_password")
        .env("NOTIFICATION_REDIS_CHANNEL", "notify:created")
        .env("MESSAGE_RATE_LIMIT", "1")
        .env("MESSAGE_RATE_WINDOW", "90000")
        .env("PARLOR_STORE__TIMEOUT", "10s")
        .env("PARLOR_KEYS__PRESET", "chat-service");
    let node = ready(options).await;
    old.subscribe("notify:created").await;
    let body = json!({ "id": "c1", "kind": "group", "members": ["bob"] });
    let create = call("POST", "/v1/conversations").by(&user("alice"));
    create.json(body).at(&node).await.created();
    let send = async || {
        let send = call("POST", "/v1/conversations/c1/messages").by(&user("alice"));
        send.json(json!({ "content": "hello" })).at(&node).await
    };
    send().await.created();
    old.next_message("notify:created", |it| it["conversationId"] == "c1")
        .await;
    send().await.refused(429, "rate_limited");
    let left = old.run("TTL rate:message:alice").await;
    assert!((70..=90).contains(&left.as_i64().unwrap()), "{left}");
}

/// `addUserSocket`, then a request to Parlor.
pub(super) async fn users_of_the_old_service_are_online_in_parlor(run: &SideBySide) {
    run.old
        .call("addUserSocket", json!(["nia", "socketId123"]))
        .await;
    let query = call("POST", "/v1/presence/query").by(&service());
    let query = query
        .json(json!({ "userIds": ["nia", "nobody"] }))
        .at(&run.node)
        .await;
    let users = query.ok()["users"].take();
    assert_eq!(
        (&users[0]["status"], &users[0]["external"]),
        (&json!("online"), &json!(true))
    );
    assert_eq!(users[1]["status"], "offline");
}

/// `removeUserSocket` sets the user offline only if Parlor has no socket either, and the other way round.
pub(super) async fn the_last_socket_of_either_side_ends_presence(run: &SideBySide) {
    let old = &run.old;
    old.call("addUserSocket", json!(["noa", "noa-1"])).await;
    let tab = run.connect("noa").await;
    old.call("removeUserSocket", json!(["noa", "noa-1"])).await;
    assert_eq!(old.call("isUserOnline", json!(["noa"])).await, true);
    assert!(run.presence("noa").await.get("external").is_none());
    tab.disconnect().await.unwrap();
    old.wait_for("GET user:noa:online", "false").await;
    assert_eq!(old.run("SCARD user:noa:sockets").await, 0);
    assert_eq!(run.presence("noa").await["status"], "offline");
}

/// The time of the last activity: connect and disconnect, without a TTL.
pub(super) async fn last_activity_is_written(run: &SideBySide) {
    let tab = run.connect("ole").await;
    let connected = run.old.run("GET lastseen:ole").await;
    let is_iso = connected.as_str().unwrap().len() == "2025-11-16T10:00:00.000Z".len();
    assert!(
        is_iso && connected.as_str().unwrap().ends_with('Z'),
        "{connected}"
    );
    assert_eq!(run.old.run("TYPE lastseen:ole").await, "string");
    assert_eq!(run.old.run("TTL lastseen:ole").await, -1);
    tab.disconnect().await.unwrap();
    run.old.wait_for("GET user:ole:online", "false").await;
    let left = run.old.run("GET lastseen:ole").await;
    assert!(left.as_str() > connected.as_str(), "{connected} {left}");
    assert_eq!(run.presence("ole").await["lastSeen"], left);
}

/// The time that the old service writes stays until the user is active at Parlor.
pub(super) async fn last_activity_at_the_old_service_stays(run: &SideBySide) {
    let old = &run.old;
    old.run(r#"SET lastseen:user123 "2025-11-16T10:30:00Z""#)
        .await;
    run.presence("user123").await;
    assert_eq!(
        old.run("GET lastseen:user123").await,
        "2025-11-16T10:30:00Z"
    );
    let _tab = run.connect("user123").await;
    let now = old.run("GET lastseen:user123").await;
    assert!(now.as_str() > Some("2025-11-16T10:30:00Z"), "{now}");
}

/// First parts of the keys in the document.
const DOCUMENTED: [&str; 8] = [
    "user",
    "socket",
    "typing",
    "rate",
    "messages",
    "unread",
    "lastseen",
    "conversation",
];
/// First parts of the other keys, which `parlor schema` prints.
const FURTHER: [&str; 5] = ["parlor", "membership", "delivery", "gcra", "rate_limit"];

/// Every key has a name of the document, or one that no pattern of the document matches.
pub(super) async fn keys_have_the_names_of_the_document(run: &SideBySide) {
    let keys = run.old.run("KEYS *").await;
    let keys: Vec<&str> = keys
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it.as_str())
        .collect();
    for key in &keys {
        let first = key.split(':').next().unwrap();
        assert!(
            DOCUMENTED.contains(&first) || FURTHER.contains(&first),
            "{key}"
        );
    }
    for prefix in DOCUMENTED.iter().filter(|it| **it != "typing") {
        assert!(
            keys.iter().any(|key| key.starts_with(prefix)),
            "no key of {prefix}"
        );
    }
}

/// No TTL for presence and counters, an hour for caches. Typing was measured above.
pub(super) async fn lifetimes_are_those_of_the_document(run: &SideBySide) {
    let keys = run.old.run("KEYS *").await;
    for key in keys.as_array().unwrap().iter().filter_map(|it| it.as_str()) {
        let parts: Vec<&str> = key.split(':').collect();
        let ttl = run.old.run(&format!("TTL {key}")).await.as_i64().unwrap();
        match parts[..] {
            ["user", _, "online" | "sockets"] | ["unread", ..] | ["lastseen", _] => {
                assert_eq!(ttl, -1, "{key}");
            }
            // An entry of the old service alone has no TTL in some examples.
            ["messages", _, "recent"] | ["conversation", _, "participants"] => {
                assert!((1..=3_600).contains(&ttl), "{key}: {ttl}");
            }
            _ => {}
        }
    }
}

/// INFO, DBSIZE and MEMORY STATS run, and the patterns find the documented keys only.
pub(super) async fn monitoring_finds_the_documented_keys_only(run: &SideBySide) {
    for line in [
        "INFO stats  # Get Redis statistics",
        "DBSIZE",
        "MEMORY STATS # Memory usage breakdown",
    ] {
        assert!(!run.old.run(line).await.is_null());
    }
    for (pattern, values) in [
        ("user:*:online", &["true", "false"][..]),
        ("rate:message:*", &[][..]),
    ] {
        let found = run
            .old
            .run(&format!("SCAN 0 MATCH {pattern} COUNT 100000"))
            .await;
        let found = found[1].as_array().unwrap();
        assert!(!found.is_empty(), "{pattern}");
        for key in found.iter().filter_map(|it| it.as_str()) {
            let value = run.old.run(&format!("GET {key}")).await;
            let value = value.as_str().unwrap();
            let is_count = values.is_empty() && value.parse::<u64>().is_ok();
            assert!(is_count || values.contains(&value), "{key}: {value}");
        }
    }
}

pub(super) async fn health_is_checked(run: &SideBySide) {
    assert_eq!(run.old.call("isHealthy", json!([])).await, true);
}

/// EVAL of the document deletes the flags of both sides; Parlor goes on.
pub(super) async fn typing_is_cleared_by_the_old_service(run: &SideBySide) {
    run.conversation("clear1", &["pia", "pit"]).await;
    let typing = async |user: &str| {
        let typing = run.request(user, "PUT", "/v1/conversations/clear1/typing");
        typing.json(json!({})).at(&run.node).await.ok()
    };
    let users = async || run.old.call("typingUsers", json!(["clear1"])).await;
    typing("pia").await;
    let clear = r#"EVAL "return redis.call('del', unpack(redis.call('keys', 'typing:*')))" 0"#;
    assert!(run.old.run(clear).await.as_u64() >= Some(1));
    assert_eq!(users().await, json!([]));
    typing("pit").await;
    assert_eq!(users().await, json!(["pit"]));
}

/// EVAL of the document resets the limits of Parlor as well.
pub(super) async fn limits_are_reset_by_the_old_service(run: &SideBySide) {
    run.conversation("clear2", &["qua", "qin"]).await;
    run.old.run("SET rate:message:qua 20 EX 60").await;
    run.send("clear2", "qua", "refused")
        .await
        .refused(429, "rate_limited");
    let reset =
        r#"EVAL "return redis.call('del', unpack(redis.call('keys', 'rate:message:*')))" 0"#;
    run.old.run(reset).await;
    run.send("clear2", "qua", "accepted").await.created();
}

/// Sessions are hashes `user:{user}`, which expire by themselves.
pub(super) async fn sessions_are_hashes_with_a_ttl(run: &SideBySide) {
    let rae = user("rae");
    call("POST", "/v1/sessions")
        .by(&rae)
        .at(&run.node)
        .await
        .created();
    assert_eq!(run.old.run("TYPE user:rae").await, "hash");
    assert_eq!(run.old.run("HGET user:rae status").await, "login");
    let left = run.old.run("TTL user:rae").await;
    assert!(
        (604_000..=604_800).contains(&left.as_i64().unwrap()),
        "{left}"
    );
    let mut keys = test_connection(&run.redis).await;
    let fields: Vec<String> = redis::cmd("HKEYS")
        .arg("user:rae")
        .query_async(&mut keys)
        .await
        .unwrap();
    assert!(fields.iter().any(|it| it == "device_id"), "{fields:?}");
}

/// The highest sequence number that was delivered.
pub(super) async fn delivery_is_tracked(run: &SideBySide) {
    run.conversation("delivery1", &["sam", "sue"]).await;
    run.send("delivery1", "sam", "hello").await.created();
    let delivered = run.request("sue", "POST", "/v1/conversations/delivery1/delivered");
    delivered.json(json!({ "seq": 1 })).at(&run.node).await.ok();
    run.old.wait_for("GET delivery:delivery1:sue", "1").await;
    let left = run.old.run("TTL delivery:delivery1:sue").await;
    assert!((3_500..=3_600).contains(&left.as_i64().unwrap()), "{left}");
}
