//! Tests of an unavailable store.

use parlor_server::grpc::proto::v1::user_status::Status::{Busy, Offline, Online};
use parlor_testkit::{Redis, eventually};
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;

use super::client::{Client, assert_refused, changes, health, next, node, ready, snapshot};

#[tokio::test]
async fn while_redis_is_down_reads_are_degraded_and_writes_are_rejected() {
    let mut redis = Redis::start().await;
    let node = ready(node().env("PARLOR_STORE__URL", redis.url())).await;
    let alice = Client::of("alice", node.grpc_address()).await;
    assert_eq!(alice.set(Online).await.unwrap().status(), Online);
    let mut health = health(&alice).await;
    while next(&mut health).await.unwrap().status() != ServingStatus::Serving {}
    redis.kill9();
    let guess = eventually("reads are degraded", async || {
        let seen = alice.get("alice").await.unwrap();
        seen.degraded.then_some(seen)
    })
    .await;
    assert_eq!((guess.status(), guess.version), (Offline, 0));
    let refused = alice.set(Busy).await.unwrap_err();
    assert_refused(&refused, Code::Unavailable, "store_unavailable");
    let refused = alice.subscribe(&["alice"]).await.unwrap_err();
    assert_refused(&refused, Code::Unavailable, "store_unavailable");
    let unhealthy = next(&mut health).await.unwrap();
    assert_eq!(unhealthy.status(), ServingStatus::NotServing);
    redis.restart().await;
    let healthy = next(&mut health).await.unwrap();
    assert_eq!(healthy.status(), ServingStatus::Serving);
    eventually("writes succeed again", async || {
        alice.set(Busy).await.map(drop)
    })
    .await;
}

#[tokio::test]
async fn a_stream_continues_after_a_redis_restart_and_catches_up() {
    let mut redis = Redis::options().durable().start().await;
    let node = ready(node().env("PARLOR_STORE__URL", redis.url())).await;
    let alice = Client::of("alice", node.grpc_address()).await;
    alice.set(Online).await.unwrap();
    let mut stream = alice.subscribe(&["alice", "bob"]).await.unwrap();
    snapshot(&mut stream).await;
    redis.kill9();
    redis.restart().await;
    // If the node has not subscribed again yet, it must find the change by reading.
    let busy = eventually("alice is set busy", async || alice.set(Busy).await.ok()).await;
    assert_eq!(changes(&mut stream).await, [busy]);
    let bob = Client::of("bob", node.grpc_address()).await;
    let online = bob.set(Online).await.unwrap();
    assert_eq!(changes(&mut stream).await, [online]);
}
