//! Tests of an unavailable store and of the shutdown.

use parlor_testkit::{DiskFault, DiskFaults, Redis, ServerProcess, eventually};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::client::{HttpConnection, TestRequest, TestResponse, call, node, on, ready};
use crate::support::get;
use crate::tokens::{self, service, user};

const ALICE: &str = "/v1/users/alice/presence";

fn test_request(method: &str, path: &str) -> TestRequest {
    call(method, path).by(&user("alice"))
}

async fn set(node: &ServerProcess, status: &str) -> TestResponse {
    let put = test_request("PUT", ALICE).json(json!({ "status": status }));
    put.at(node).await
}

fn assert_unavailable(answer: &TestResponse) {
    answer.refused(503, "store_unavailable");
    assert_eq!(answer.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn while_the_store_is_unavailable_reads_are_degraded_and_writes_fail() {
    let mut redis = Redis::start().await;
    let node = on(&redis).await;
    set(&node, "online").await.ok();
    redis.kill9();
    let read = test_request("GET", ALICE).at(&node).await.ok();
    let degraded = json!({
        "userId": "alice", "status": "offline", "lastSeen": null, "version": 0, "degraded": true
    });
    assert_eq!(read, degraded);
    let query =
        test_request("POST", "/v1/presence/query").json(json!({ "userIds": ["alice", "bob"] }));
    let users = query.at(&node).await.ok()["users"].clone();
    assert_eq!(
        (&users[0], &users[1]["degraded"]),
        (&degraded, &Value::Bool(true))
    );

    assert_unavailable(&set(&node, "away").await);
    assert_unavailable(&test_request("GET", "/v1/presence/count").at(&node).await);
    assert_unavailable(
        &test_request("GET", &format!("{ALICE}/devices"))
            .at(&node)
            .await,
    );
    assert_unavailable(
        &test_request("DELETE", &format!("{ALICE}/devices/api"))
            .at(&node)
            .await,
    );
    test_request("PUT", ALICE)
        .body("{")
        .at(&node)
        .await
        .refused(400, "invalid_request");

    redis.restart().await;
    eventually("the store is used again", async || {
        set(&node, "away").await.status == 200
    })
    .await;
}

#[tokio::test]
async fn a_store_that_was_never_reachable_is_treated_as_unavailable() {
    let mut redis = Redis::start().await;
    redis.kill9();
    let node = node().env("PARLOR_STORE__URL", redis.url()).start().await;
    let read = test_request("GET", ALICE).at(&node).await.ok();
    assert_eq!(
        (&read["status"], &read["degraded"]),
        (&json!("offline"), &json!(true))
    );
    let query = test_request("POST", "/v1/presence/query").json(json!({ "userIds": ["alice"] }));
    assert_eq!(query.at(&node).await.ok()["users"], json!([read]));
    let wrong = test_request("GET", "/v1/users/a%20b/presence")
        .at(&node)
        .await;
    wrong.refused(400, "invalid_id");
    assert_unavailable(&set(&node, "online").await);
    assert_unavailable(&test_request("GET", "/v1/presence/count").at(&node).await);
    redis.restart().await;
    let begin = || call("POST", "/v1/sessions").by(&user("alice"));
    eventually("the store is used", async || {
        begin().at(&node).await.status == 201 && set(&node, "online").await.status == 200
    })
    .await;
}

#[tokio::test]
async fn heartbeats_keep_users_online_while_the_disk_of_the_store_is_full() {
    let faults = DiskFaults::new();
    let options = node()
        .disk_faults(&faults)
        .env("PARLOR_TTL__PRESENCE", "5s");
    let node = ready(options).await;
    let beat = async |user: &str| {
        let path = format!("/v1/users/{user}/presence/heartbeat");
        call("POST", &path)
            .by(&tokens::user(user))
            .at(&node)
            .await
            .ok();
    };
    let status = async |user: &str| {
        let get = call("GET", &format!("/v1/users/{user}/presence"));
        get.by(&service()).at(&node).await.ok()["status"].clone()
    };
    // The deadline of the user who sends heartbeats is the earlier one.
    for user in ["alice", "slow"] {
        beat(user).await;
        eventually("the user is online", async || {
            status(user).await == "online"
        })
        .await;
    }
    let full = faults.inject(DiskFault::Full, "store.db");
    eventually("the node reports the full disk", async || {
        let (_, answer) = get(&node.http_url(), "/readyz").await.unwrap();
        answer["parts"]["store"]["code"] == "store_full"
    })
    .await;
    eventually("the user without heartbeats is offline", async || {
        // Bob's device is unknown to the store, which does not accept it.
        beat("bob").await;
        beat("alice").await;
        status("slow").await == "offline"
    })
    .await;
    eventually("the user with heartbeats is online", async || {
        beat("alice").await;
        status("alice").await == "online"
    })
    .await;
    full.repair();
    eventually("the device is registered", async || {
        beat("bob").await;
        status("bob").await == "online"
    })
    .await;
}

#[tokio::test]
async fn shutdown_completes_open_requests_and_accepts_no_new_ones() {
    let mut redis = Redis::start().await;
    let patient = node()
        .env("PARLOR_STORE__URL", redis.url())
        .env("PARLOR_STORE__TIMEOUT", "5s");
    let mut node = ready(patient).await;
    let mut idle = HttpConnection::connect_to(&node).await;
    idle.ask(test_request("GET", "/v1/presence/count"))
        .await
        .ok();
    let mut half = HttpConnection::connect_to(&node).await;
    let request = format!(
        "PUT {ALICE} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 19\r\n\r\n",
        user("alice")
    );
    half.write(request.as_bytes()).await;
    // A later response on another connection shows that the server has received the half request.
    idle.ask(test_request("GET", "/v1/presence/count"))
        .await
        .ok();

    node.send_sigterm();
    node.wait_for_line("\"stopping\"").await;
    idle.closed().await;
    let address = node.http_url().replace("http://", "");
    eventually("new connections are refused", async || {
        TcpStream::connect(&address).await.is_err()
    })
    .await;
    half.write(br#"{"status":"online"}"#).await;
    let answer = half.answer().await;
    assert_eq!(answer.ok()["status"], "online");
    half.closed().await;
    assert_eq!(
        node.wait_for_exit().await.code(),
        Some(0),
        "{}",
        node.output()
    );
    redis.kill9();
}
