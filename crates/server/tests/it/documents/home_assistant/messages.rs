//! Checks of the message cache, the prefix, and the commands of the document.

use parlor_testkit::{Redis, eventually};
use serde_json::{Value, json};

use crate::documents::old_service::OldService;
use crate::documents::side_by_side::SideBySide;
use crate::http::client::{call, node, ready};
use crate::tokens::user;

/// The list of a conversation of Parlor, with the role of each sender.
pub(super) async fn recent_messages_are_listed(run: &SideBySide) {
    run.conversation("456", &["wanda", "willi"]).await;
    for content in ["first", "second"] {
        run.send("456", "wanda", content).await.created();
    }
    eventually("the list has both messages", async || {
        run.old.run("LLEN ha:chat:conversation:456:messages").await == 2
    })
    .await;
    let messages = run.old.call("recentMessages", json!(["456", 20])).await;
    assert_eq!(messages[0]["content"], "second");
    for message in messages.as_array().unwrap() {
        for field in ["id", "content", "sender_role", "timestamp"] {
            assert!(message[field].is_string(), "{field}: {message}");
        }
    }
    assert_eq!(
        run.old.run("TYPE ha:chat:conversation:456:messages").await,
        "list"
    );
    let left = run.old.run("TTL ha:chat:conversation:456:messages").await;
    assert!((3_500..=3_600).contains(&left.as_i64().unwrap()), "{left}");
}

/// LPUSH, LTRIM and EXPIRE in one MULTI, of a conversation that Parlor does not have.
pub(super) async fn lists_of_the_old_service_stay(run: &SideBySide) {
    let message = json!({
        "id": 789, "content": "Hello, how can I help?", "sender_role": "admin", "timestamp": "2025-06-27T10:00:00Z",
    });
    run.old.call("cacheMessage", json!(["789", message])).await;
    run.send("789", "wanda", "refused")
        .await
        .refused(403, "not_a_member");
    let history = run.request("wanda", "GET", "/v1/conversations/789/messages");
    let history = history.at(&run.node).await.ok();
    assert_eq!(history["messages"], json!([]));
    assert_eq!(
        run.old.call("recentMessages", json!(["789", 20])).await,
        json!([message])
    );
}

/// Every key of the run is below the prefix, and so are the channels.
pub(super) async fn keys_and_channels_have_the_prefix(run: &SideBySide) {
    run.old.subscribe("ha:events:message.created").await;
    run.old.subscribe("ha:events:user.online").await;
    run.conversation("prefix1", &["wim", "willi"]).await;
    run.send("prefix1", "wim", "hello").await.created();
    let is_ours = |it: &Value| it["conversationId"] == "prefix1";
    run.old
        .next_message("ha:events:message.created", is_ours)
        .await;
    let _wim = run.connect("wim").await;
    run.old
        .next_message("ha:events:user.online", |it| it["userId"] == "wim")
        .await;
    let keys = run.old.run("KEYS *").await;
    for key in keys.as_array().unwrap() {
        assert!(key.as_str().unwrap().starts_with("ha:"), "{key}");
    }
}

/// `REDIS_KEY_PREFIX` changes the prefix of Parlor as well.
pub(super) async fn the_prefix_is_configurable(_run: &SideBySide) {
    let redis = Redis::start().await;
    let old = OldService::start("home_assistant.mjs", &redis).await;
    let options = node()
        .env("PARLOR_STORE__URL", redis.url())
        .env("PARLOR_STORE__TIMEOUT", "10s")
        .env("PARLOR_KEYS__PRESET", "home-assistant")
        .env("REDIS_KEY_PREFIX", "house:");
    let node = ready(options).await;
    call("POST", "/v1/sessions")
        .by(&user("xena"))
        .at(&node)
        .await
        .created();
    assert_eq!(old.run("HGET house:user:xena status").await, "login");
    assert_eq!(old.run("KEYS ha:*").await, json!([]));
}

/// The commands of the document run on keys that Parlor wrote.
pub(super) async fn commands_of_the_document_run(run: &SideBySide) {
    let window = "ha:rate_limit:192.168.1.100";
    for (line, expected) in [
        (format!("ZCARD {window}"), 4),
        (format!("ZREMRANGEBYSCORE {window} 0 1"), 0),
        ("EXPIRE ha:user:uma 604800".into(), 1),
        ("INCR ha:requests:total".into(), 1),
        ("INCRBY ha:requests:total 2".into(), 3),
    ] {
        assert_eq!(run.old.run(&line).await, expected, "{line}");
    }
    for (line, length) in [
        (format!("ZRANGE {window} 0 -1"), 4),
        ("HGETALL ha:user:uma".into(), 12),
        ("LRANGE ha:chat:conversation:456:messages 0 19".into(), 2),
    ] {
        let reply = run.old.run(&line).await;
        assert_eq!(
            reply.as_array().map(Vec::len),
            Some(length),
            "{line}: {reply}"
        );
    }
    assert_eq!(run.old.run("HGET ha:user:uma status").await, "login");
}

/// The list of a conversation of Parlor expires after an hour, and so does that of the old service.
pub(super) async fn lists_expire(run: &SideBySide) {
    for conversation in ["456", "789"] {
        let key = format!("ha:chat:conversation:{conversation}:messages");
        let left = run.old.run(&format!("TTL {key}")).await;
        assert!(
            (3_500..=3_600).contains(&left.as_i64().unwrap()),
            "{key}: {left}"
        );
    }
}

/// Both sides push into the list of one conversation. Parlor's clients read the messages of Parlor.
pub(super) async fn a_message_of_the_old_service_joins_the_list(run: &SideBySide) {
    run.old
        .call(
            "cacheMessage",
            json!(["456", { "id": 790, "content": "from the old service" }]),
        )
        .await;
    let history = run.request("wanda", "GET", "/v1/conversations/456/messages");
    let history = history.at(&run.node).await.ok();
    let contents: Vec<&str> = history["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["content"].as_str())
        .collect();
    assert_eq!(contents, ["first", "second"]);
    run.send("456", "wanda", "third").await.created();
    eventually("the newest message is the first of the list", async || {
        let newest = run.old.call("recentMessages", json!(["456", 1])).await;
        newest[0]["content"] == "third"
    })
    .await;
}
