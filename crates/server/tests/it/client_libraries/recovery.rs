//! Test of connection state recovery with the official JavaScript client.

use serde_json::{Value, json};

use super::deployment::{Ground, World};
use super::driver::{Driver, Language};
use crate::http::client::call;
use crate::tokens::user;

#[tokio::test]
async fn the_node_client_recovers_missed_events_once_and_in_order() {
    let world = World::start(Ground::Embedded).await;
    let driver = Driver::start(Language::Node);
    let create = call("POST", "/v1/conversations").by(&user("alice"));
    let create = create.json(json!({ "id": "lunch", "kind": "group", "members": ["bob"] }));
    create.at(&world.nodes[0]).await.created();
    let (join, url) = (json!({ "conversationId": "lunch" }), world.url(0));
    for name in ["alice", "bob"] {
        let auth = json!({ "token": user(name), "deviceId": name });
        let options =
            json!({ "transports": ["websocket"], "reconnection": true, "reconnectionDelay": 300 });
        let opened = driver.open_with(name, &url, auth, options);
        opened.await.unwrap();
        driver.ok(name, "conversation:join", join.clone()).await;
    }
    let send = async |content: &str| {
        let body = json!({ "conversationId": "lunch", "content": content });
        let sent = driver.ok("alice", "message:send", body).await;
        sent["message"].clone()
    };
    let next = async || driver.next("bob", "message:new", |_| true).await;
    let first = send("one").await;
    assert_eq!(next().await, first);

    driver.drop_line("bob").await;
    driver.next("bob", "disconnect", |_| true).await;
    let (second, third) = (send("two").await, send("three").await);
    let recovered = |it: &Value| it["recovered"] == true;
    driver.next("bob", "connect", recovered).await;
    assert_eq!(next().await, second);
    assert_eq!(next().await, third);
    // The recovered socket is still joined.
    let fourth = send("four").await;
    assert_eq!(next().await, fourth);
    let rest = driver.rest("bob");
    assert!(!rest.iter().any(|it| it.0 == "message:new"), "{rest:?}");
}
