//! Tests of `SubscribeStatusUpdates` and of streams at the shutdown.

use parlor_server::grpc::proto::v1::user_status::Status::{Away, Busy, Offline, Online};
use parlor_testkit::{Redis, eventually};
use serde_json::json;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use super::client::{
    Client, assert_refused, changes, endpoint, health, next, node, ready, service_token, snapshot,
    token,
};
use crate::http::client::call;

#[tokio::test]
async fn a_change_on_one_node_reaches_a_stream_on_another() {
    let redis = Redis::start().await;
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}/parlor.db", folder.path().display());
    let of_redis = || {
        node()
            .env("PARLOR_STORE__URL", redis.url())
            .env("PARLOR_DATABASE__URL", &database)
    };
    let (one, other) = tokio::join!(ready(of_redis()), ready(of_redis()));
    let service = Client::new(Some(service_token()), one.grpc_address()).await;
    let alice = Client::of("alice", other.grpc_address()).await;
    let mut stream = service.subscribe(&["bob", "alice"]).await.unwrap();
    let first = snapshot(&mut stream).await;
    let seen = first.iter().map(|it| (it.user_id.as_str(), it.status()));
    assert!(seen.eq([("bob", Offline), ("alice", Offline)]), "{first:?}");

    for status in [Online, Away, Busy, Offline] {
        let set = alice.set(status).await.unwrap();
        assert_eq!(changes(&mut stream).await, [set]);
    }
}

#[tokio::test]
async fn a_slow_reader_gets_only_the_latest_statuses() {
    const CHANGES: usize = 12;
    let node = ready(node()).await;
    // Two messages fill the flow control window of this client.
    let narrow = endpoint(node.grpc_address()).initial_stream_window_size(100);
    let slow = Client::with_endpoint(Some(token("slow", 600.0)), narrow).await;
    let alice = Client::of("alice", node.grpc_address()).await;
    let mut last = alice.set(Online).await.unwrap();
    let mut unread = slow.subscribe(&["alice"]).await.unwrap();
    let mut read = alice.subscribe(&["alice"]).await.unwrap();
    snapshot(&mut read).await;
    // Every change is sent to the reading client before the next one is made.
    for status in [Away, Busy].into_iter().cycle().take(CHANGES) {
        last = alice.set(status).await.unwrap();
        assert_eq!(changes(&mut read).await, std::slice::from_ref(&last));
    }

    snapshot(&mut unread).await;
    let mut received = 0;
    let mut version = 0;
    while version != last.version {
        let users = changes(&mut unread).await;
        assert_eq!(users.len(), 1, "{users:?}");
        assert!(users[0].version > version, "{users:?}");
        version = users[0].version;
        received += 1;
    }
    assert!(
        received <= CHANGES / 2,
        "{received} of {CHANGES} changes were queued"
    );
}

#[tokio::test]
async fn the_end_of_the_token_ends_the_stream() {
    let node = ready(node()).await;
    // The token expires in 8 s, because the leeway is 30 s.
    let soon = Client::new(Some(token("alice", -22.0)), node.grpc_address()).await;
    let mut stream = soon.subscribe(&["alice"]).await.unwrap();
    snapshot(&mut stream).await;
    let end = next(&mut stream).await.unwrap_err();
    assert_refused(&end, Code::Unauthenticated, "token_expired");
}

#[tokio::test]
async fn the_end_of_the_session_ends_the_streams_on_every_node() {
    let redis = Redis::start().await;
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}/parlor.db", folder.path().display());
    let of_redis = || {
        node()
            .env("PARLOR_STORE__URL", redis.url())
            .env("PARLOR_DATABASE__URL", &database)
    };
    let (one, other) = tokio::join!(ready(of_redis()), ready(of_redis()));
    let mut streams = Vec::new();
    for node in [&one, &other] {
        for user in ["alice", "bob"] {
            let client = Client::of(user, node.grpc_address()).await;
            let mut stream = client.subscribe(&["alice"]).await.unwrap();
            snapshot(&mut stream).await;
            streams.push((user, stream));
        }
    }
    let service = Client::new(Some(service_token()), other.grpc_address()).await;
    let mut lasting = service.subscribe(&["slow"]).await.unwrap();
    snapshot(&mut lasting).await;

    let block = call("PATCH", "/v1/admin/sessions/alice").by(&service_token());
    let block = block.json(json!({ "status": "blocked" }));
    block.at(&one).await.ok();
    let leave = call("DELETE", "/v1/sessions/me").by(&token("bob", 600.0));
    leave.at(&one).await.ok();
    for (user, stream) in &mut streams {
        // Messages that were already sent may arrive before the error.
        let end = loop {
            if let Err(end) = next(stream).await {
                break end;
            }
        };
        match *user {
            "alice" => assert_refused(&end, Code::PermissionDenied, "session_blocked"),
            _ => assert_refused(&end, Code::Unauthenticated, "session_expired"),
        }
    }
    for node in [&one, &other] {
        let alice = Client::of("alice", node.grpc_address()).await;
        let refused = alice.subscribe(&["alice"]).await.unwrap_err();
        assert_refused(&refused, Code::PermissionDenied, "session_blocked");
    }
    let slow = Client::of("slow", one.grpc_address()).await;
    let set = slow.set(Online).await.unwrap();
    assert_eq!(changes(&mut lasting).await, [set]);
}

#[tokio::test]
async fn a_stream_that_its_client_left_is_freed() {
    let redis = Redis::start().await;
    let node = ready(node().env("PARLOR_STORE__URL", redis.url())).await;
    let mut connection = redis.connection().await;
    let mut listens = async |expected: usize| {
        let what = format!("the node listens to {expected} channels of watched users");
        eventually(&what, async || {
            let mut request = redis::cmd("PUBSUB");
            request.arg("CHANNELS").arg("parlor:watch:*");
            let channels: Vec<String> = request.query_async(&mut connection).await.unwrap();
            channels.len() == expected
        })
        .await;
    };
    let alice = Client::of("alice", node.grpc_address()).await;
    let first = alice.subscribe(&["alice"]).await.unwrap();
    let second = alice.subscribe(&["alice", "bob"]).await.unwrap();
    listens(2).await;
    // The client cancels one stream.
    drop(second);
    listens(1).await;
    // The client closes the connection.
    drop((first, alice));
    listens(0).await;
}

#[tokio::test]
async fn stopping_ends_every_stream_and_then_the_process() {
    let mut node = ready(node()).await;
    let alice = Client::of("alice", node.grpc_address()).await;
    let mut updates = alice.subscribe(&["alice"]).await.unwrap();
    snapshot(&mut updates).await;
    let mut health = health(&alice).await;
    while next(&mut health).await.unwrap().status() != ServingStatus::Serving {}
    // A stream whose client never ends its requests.
    let mut reflection = alice
        .call_without_message::<ServerReflectionRequest, ServerReflectionResponse>(
            "grpc.reflection.v1.ServerReflection",
            "ServerReflectionInfo",
        )
        .await
        .unwrap();

    node.send_sigterm();
    let end = next(&mut updates).await.unwrap_err();
    assert_refused(&end, Code::Unavailable, "shutting_down");
    let last = next(&mut health).await.unwrap();
    assert_eq!(last.status(), ServingStatus::NotServing);
    let end = next(&mut health).await.unwrap_err();
    assert_refused(&end, Code::Unavailable, "shutting_down");
    assert_eq!(reflection.message().await.unwrap(), None);
    assert_eq!(
        node.wait_for_exit().await.code(),
        Some(0),
        "{}",
        node.output()
    );
    assert!(
        !node.output().contains("aborted requests"),
        "{}",
        node.output()
    );
}

#[tokio::test]
async fn changes_of_many_users_are_sent_as_one_message() {
    let node = ready(node()).await;
    let service = Client::new(Some(service_token()), node.grpc_address()).await;
    let users: Vec<String> = (0..1_000).map(|user| format!("user-{user}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let mut stream = service.subscribe(&users).await.unwrap();
    let first = snapshot(&mut stream).await;
    assert!(first.iter().map(|it| it.user_id.as_str()).eq(users));
}
