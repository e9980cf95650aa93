//! A system that is filled, stopped, imported into and started again: no cache is stale, and no event is published.

use futures_util::StreamExt as _;
use parlor_testkit::{Postgres, Redis, ServerProcess};
use redis::AsyncCommands as _;
use serde_json::json;

use super::{Target, member, message, run_on};
use crate::http::client::{call, node, ready};
use crate::tokens::user;

async fn unread_of_bob(node: &ServerProcess) -> u64 {
    let unread = call("GET", "/v1/unread")
        .by(&user("bob"))
        .at(node)
        .await
        .ok();
    unread["total"].as_u64().unwrap()
}

async fn contents(node: &ServerProcess) -> Vec<String> {
    let history = call("GET", "/v1/conversations/lunch/messages")
        .by(&user("bob"))
        .at(node)
        .await
        .ok();
    let messages = history["messages"].as_array().unwrap().iter();
    messages
        .map(|it| it["content"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn after_an_import_history_members_and_unread_counts_are_right_at_the_next_start() {
    let (redis, server) = (Redis::start().await, Postgres::start().await);
    let url = server.create_database().await;
    let options = || {
        node()
            .env("PARLOR_STORE__URL", redis.url())
            .env("PARLOR_DATABASE__URL", &url)
    };
    let mut first = ready(options()).await;
    let create = call("POST", "/v1/conversations").by(&user("alice"));
    let lunch = json!({ "id": "lunch", "kind": "group", "members": ["bob"] });
    create.json(lunch).at(&first).await.created();
    let send = call("POST", "/v1/conversations/lunch/messages").by(&user("alice"));
    send.json(json!({ "content": "before" }))
        .at(&first)
        .await
        .created();
    assert_eq!(
        (unread_of_bob(&first).await, contents(&first).await.len()),
        (1, 1)
    );
    // The answer is cached.
    let refused = call("GET", "/v1/conversations/lunch/messages")
        .by(&user("root"))
        .at(&first)
        .await;
    refused.refused(403, "not_a_member");
    assert!(first.terminate_and_wait().await.success());

    let client = redis::Client::open(redis.url()).unwrap();
    let mut events = client.get_async_pubsub().await.unwrap();
    events.psubscribe("events:*").await.unwrap();
    let target = Target::at(url.clone());
    let now = crate::tokens::now() * 1_000;
    let recent = |id: &str, back: u64| {
        let mut line = message("lunch", id, "alice", "");
        line["createdAt"] = json!(now - back);
        line
    };
    // Newer than the message that was sent, and recent enough for a server to publish it if it were new.
    let file = target.file(&[member("lunch", "root"), recent("late", 0)]);
    let moved = ["import", file.to_str().unwrap(), "--store", &redis.url()];
    // The clock of the message may be some milliseconds ahead of the second in which this test runs.
    let imported = parlor_testkit::eventually("the message is not older than the one before", async || {
        let now = crate::tokens::now() * 1_000;
        let mut line = message("lunch", "late", "alice", "");
        line["createdAt"] = json!(now);
        target.file(&[json!({ "type": "member", "conversationId": "lunch", "userId": "root", "joinedAt": now }), line]);
        let ran = run_on(&target.data_folder(), &url, &moved).await;
        Some(ran).filter(|ran| ran.exit_code == 0)
    })
    .await;
    assert!(
        imported.stdout.contains("imported; start the servers"),
        "{imported:?}"
    );

    let mut keys = redis.connection().await;
    let counter: u64 = keys.get("unread:bob:lunch").await.unwrap();
    assert_eq!(counter, 2);
    let second = ready(options()).await;
    assert_eq!(contents(&second).await, ["before", "text of late"]);
    assert_eq!(unread_of_bob(&second).await, 2);
    let history = call("GET", "/v1/conversations/lunch/messages")
        .by(&user("root"))
        .at(&second)
        .await
        .ok();
    assert_eq!(history["messages"].as_array().unwrap().len(), 2);
    // The event of the next message is the first one, so the imported message was not published.
    let send = call("POST", "/v1/conversations/lunch/messages").by(&user("bob"));
    let sent = send
        .json(json!({ "content": "after" }))
        .at(&second)
        .await
        .created();
    let mut stream = events.into_on_message();
    let event = loop {
        let event = stream.next().await.unwrap();
        if event.get_channel_name() == "events:message.created" {
            break event.get_payload::<String>().unwrap();
        }
    };
    assert!(event.contains(sent["id"].as_str().unwrap()), "{event}");
}
