//! Tests of clients that begin with HTTP long-polling, the default of Socket.IO clients.

use serde_json::{Value, json};

use super::deployment::{Ground, World};
use super::driver::{Driver, Language};
use crate::http::client::call;
use crate::tokens::user;

/// A client that begins with polling, and stays with it or upgrades to WebSocket, receives all messages.
async fn run_polling_test(language: Language, transports: &[&str]) {
    let world = World::start(Ground::Embedded).await;
    let driver = Driver::start(language);
    let create = call("POST", "/v1/conversations").by(&user("alice"));
    let create = create.json(json!({ "id": "lunch", "kind": "group", "members": ["bob"] }));
    create.at(&world.nodes[0]).await.created();
    let options = json!({ "transports": transports });
    for name in ["alice", "bob"] {
        let auth = json!({ "token": user(name) });
        let url = world.url(0);
        let opened = driver.open_with(name, &url, auth, options.clone());
        opened.await.unwrap();
        let join = json!({ "conversationId": "lunch" });
        driver.ok(name, "conversation:join", join).await;
    }
    for seq in 1..=15 {
        let content = format!("{seq} ☕ {}", "x".repeat(seq * 200));
        let send = json!({ "conversationId": "lunch", "content": content });
        let sent = driver.ok("alice", "message:send", send).await;
        assert_eq!(sent["message"]["seq"], seq);
    }
    for seq in 1..=15 {
        let next = driver.next("bob", "message:new", |_| true).await;
        assert_eq!(next["seq"], seq);
    }
    let rest = driver.rest("bob");
    let new = |it: &&(String, Value)| it.0 == "message:new";
    assert_eq!(rest.iter().filter(new).count(), 0);
    driver.close("bob").await;
}

#[tokio::test]
async fn the_node_client_stays_with_polling() {
    run_polling_test(Language::Node, &["polling"]).await;
}

#[tokio::test]
async fn the_node_client_upgrades_from_polling() {
    run_polling_test(Language::Node, &["polling", "websocket"]).await;
}

#[tokio::test]
async fn the_python_client_stays_with_polling() {
    run_polling_test(Language::Python, &["polling"]).await;
}

#[tokio::test]
async fn the_python_client_upgrades_from_polling() {
    run_polling_test(Language::Python, &["polling", "websocket"]).await;
}
