//! Rate limits and sessions that two nodes share.

use parlor_testkit::{ServerProcess, eventually};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::deployment::{Ground, World};
use super::retrying_client::{Request, Wire};
use crate::tokens::{admin, service, user};

/// Concurrent checks, and the connections that send them.
const CHECKS: usize = 1_000;
const CONNECTIONS: usize = 200;
const LIMIT: usize = 100;
/// Longer than a test, so that no request becomes free again, with the algorithm `gcra` either.
const WINDOW_MS: u64 = 31 * 86_400_000;

/// Users who are blocked while the bus connection is broken.
const PEOPLE: usize = 12;

async fn admitted(world: &World, algorithm: &'static str) -> usize {
    let mut callers = JoinSet::new();
    for number in 0..CONNECTIONS {
        let mut wire = world.wire(number);
        callers.spawn(async move {
            let mut admitted = 0;
            for _ in 0..CHECKS / CONNECTIONS {
                let check = Request {
                    method: "POST",
                    path: "/v1/limits/check",
                    user: None,
                    body: Some(json!({
                        "key": "orders", "algorithm": algorithm, "limit": LIMIT, "windowMs": WINDOW_MS
                    })),
                };
                let verdict = wire.ask(&check).await.unwrap().ok();
                admitted += usize::from(verdict["allowed"] == true);
            }
            admitted
        });
    }
    callers.join_all().await.into_iter().sum()
}

#[tokio::test]
async fn two_nodes_together_admit_exactly_the_limit() {
    let world = World::start(Ground::Shared(2)).await;
    for algorithm in ["fixed", "sliding", "gcra"] {
        assert_eq!(admitted(&world, algorithm).await, LIMIT, "{algorithm}");
    }
}

/// Sends a request with a token to a node.
async fn test_request(node: &ServerProcess, token: &str) -> (u16, Value) {
    ask(node, token, "GET", "/v1/presence/count", None).await
}

async fn ask(
    node: &ServerProcess,
    token: &str,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> (u16, Value) {
    let address = node.http_address();
    let request = Request {
        method,
        path,
        user: None,
        body,
    };
    let answer = Wire::new(&[address], 0, token).ask(&request).await.unwrap();
    let code = answer.body["code"].clone();
    (answer.status, code)
}

async fn sign_in(world: &World, name: &str) -> String {
    let token = user(name);
    let begun = ask(&world.nodes[0], &token, "POST", "/v1/sessions", None).await;
    assert_eq!(begun.0, 201);
    for node in &world.nodes {
        assert_eq!(test_request(node, &token).await.0, 200);
    }
    token
}

async fn set(node: &ServerProcess, name: &str, status: &str) {
    let path = format!("/v1/admin/sessions/{name}");
    let body = Some(json!({ "status": status }));
    let set = ask(node, &service(), "PATCH", &path, body).await;
    assert_eq!(set.0, 200, "{set:?}");
}

async fn refused(node: &ServerProcess, token: &str, status: u16, code: &str) {
    eventually(&format!("{code} on the other node"), async || {
        let answer = test_request(node, token).await;
        match answer == (status, code.into()) {
            true => Ok(()),
            false => Err(answer),
        }
    })
    .await;
}

#[tokio::test]
async fn a_block_and_a_logout_apply_on_every_node() {
    let world = World::start(Ground::Shared(2)).await;
    let [one, other] = &world.nodes[..] else {
        panic!("two nodes")
    };
    let (alice, bob) = (sign_in(&world, "alice").await, sign_in(&world, "bob").await);
    set(one, "alice", "blocked").await;
    refused(other, &alice, 403, "session_blocked").await;
    set(other, "alice", "login").await;
    eventually("alice is accepted again", async || {
        test_request(one, &alice).await.0 == 200 && test_request(other, &alice).await.0 == 200
    })
    .await;
    let out = ask(one, &bob, "DELETE", "/v1/sessions/me", None).await;
    assert_eq!(out.0, 200);
    refused(other, &bob, 401, "session_expired").await;
    // An admin without a session is rejected.
    assert_eq!(test_request(other, &admin("root")).await.0, 401);
}

#[tokio::test]
async fn a_node_with_a_broken_bus_connection_still_learns_session_changes() {
    let mut world = World::start(Ground::Shared(2)).await;
    let mut people = Vec::new();
    for number in 0..PEOPLE {
        let name = format!("person{number}");
        people.push((sign_in(&world, &name).await, name));
    }
    let mut redis = world.redis().connection().await;
    let [one, other] = &world.nodes[..] else {
        panic!("two nodes")
    };
    for (nth, (token, name)) in people.iter().enumerate() {
        let mut cut = redis::cmd("CLIENT");
        cut.arg("KILL").arg("TYPE").arg("pubsub");
        cut.exec_async(&mut redis).await.unwrap();
        match nth % 2 {
            0 => set(one, name, "blocked").await,
            _ => {
                let out = ask(one, token, "DELETE", "/v1/sessions/me", None).await;
                assert_eq!(out.0, 200);
            }
        }
    }
    for (nth, (token, _)) in people.iter().enumerate() {
        let (status, code) = match nth % 2 {
            0 => (403, "session_blocked"),
            _ => (401, "session_expired"),
        };
        refused(other, token, status, code).await;
    }
}
