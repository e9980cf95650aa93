//! Messages while the store is unavailable: the sockets of the node that accepted them receive them at once.

use parlor_testkit::{Redis, eventually};

use super::{connect, join, next_event_named, send};
use crate::http::client::{node, ready};
use crate::http::conversations::create_lunch_group;
use crate::support::get;

#[tokio::test]
async fn sockets_of_a_node_receive_its_messages_while_redis_is_down() {
    let mut redis = Redis::start().await;
    let node = ready(node().env("PARLOR_STORE__URL", redis.url())).await;
    create_lunch_group(&node).await;
    let (mut alice, mut bob) = (connect(&node, "alice").await, connect(&node, "bob").await);
    join(&mut alice, "lunch").await;
    join(&mut bob, "lunch").await;
    redis.kill9();
    for content in ["one", "two"] {
        let sent = send(&mut alice, "lunch", content).await;
        assert_eq!(next_event_named(&mut bob, "message:new").await, sent);
    }
    let strict = || async { get(&node.http_url(), "/readyz?strict").await.unwrap().0 };
    eventually("the node is degraded", async || strict().await == 503).await;
    let (status, ready) = get(&node.http_url(), "/readyz").await.unwrap();
    assert_eq!((status, &ready["degraded"]), (200, &true.into()), "{ready}");

    redis.restart_empty().await;
    eventually("the node is ready", async || strict().await == 200).await;
    let sent = send(&mut alice, "lunch", "three").await;
    // Each message once, also those that reach the store only now.
    assert_eq!(next_event_named(&mut bob, "message:new").await, sent);
}
