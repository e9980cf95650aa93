//! Members are added and removed on some nodes while they send requests to all nodes.
//!
//! Invariants:
//! 1. After a change was acknowledged, no node responds by the state before the change.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use serde_json::json;
use tokio::task::JoinSet;

use super::deployment::{Ground, World};
use super::retrying_client::{Answer, Request, Wire};
use crate::tokens::{service, user};

const NODES: usize = 3;
/// Number of conversations. In each of them one member is added and removed again and again.
const ROOMS: usize = 4;
/// Number of times that the member is added and removed.
const ROUNDS: usize = 25;

/// Phases of a round. In the phases besides `MEMBER` and `STRANGER` a change is in progress.
const PHASES: usize = 4;
const MEMBER: usize = 1;
const STRANGER: usize = 3;

struct MembershipScenario {
    id: String,
    owner: String,
    member: String,
    nodes: Vec<SocketAddr>,
    /// Token of the member, because a service may read every conversation.
    token: String,
    /// Rises when a change begins and when it is acknowledged.
    phase: AtomicUsize,
}

impl MembershipScenario {
    /// Connection of the member to a node.
    fn wire(&self, node: usize) -> Wire {
        Wire::new(&[self.nodes[node]], 0, &self.token)
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/conversations/{}{rest}", self.id)
    }

    fn advance(&self) {
        self.phase.fetch_add(1, Ordering::SeqCst);
    }

    /// Sends one request as the member: a read or a write.
    async fn question(&self, wire: &mut Wire, writes: bool) -> Answer {
        let (read, write) = (self.path("/messages?limit=1"), self.path("/messages"));
        let request = match writes {
            true => Request::post(&self.member, &write, json!({ "content": "here" })),
            false => Request::get(&self.member, &read),
        };
        let request = Request {
            user: None,
            ..request
        };
        wire.ask(&request).await.unwrap()
    }

    /// Sends requests to one node until the end of the test. Checks every response whose request began and ended in the
    /// same phase; returns their number.
    async fn ask(self: Arc<Self>, node: usize) -> usize {
        let mut wire = self.wire(node);
        let mut certain = 0;
        for nth in 0_usize.. {
            let before = self.phase.load(Ordering::SeqCst);
            if before >= PHASES * ROUNDS {
                break;
            }
            let answer = self.question(&mut wire, nth % 4 == 3).await;
            if self.phase.load(Ordering::SeqCst) != before {
                continue;
            }
            match before % PHASES {
                MEMBER => drop(answer.ok()),
                STRANGER => answer.refused(403, "not_a_member"),
                _ => continue,
            }
            certain += 1;
        }
        certain
    }

    /// Adds and removes the member.
    async fn change(self: Arc<Self>, mut redis: MultiplexedConnection) {
        let mut wires: Vec<Wire> = (0..NODES).map(|node| self.wire(node)).collect();
        let owner = |node: &SocketAddr| Wire::new(&[*node], 0, &service());
        let mut owners: Vec<Wire> = self.nodes.iter().map(owner).collect();
        let member = self.path(&format!("/members/{}", self.member));
        for round in 0..ROUNDS {
            self.put(&mut owners[round % NODES], "PUT", &member).await;
            self.advance();
            for wire in &mut wires {
                self.question(wire, false).await.ok();
            }
            self.advance();
            let node = (round / NODES) % NODES;
            self.put(&mut owners[node], "DELETE", &member).await;
            self.advance();
            for wire in &mut wires {
                for writes in [false, true] {
                    let answer = self.question(wire, writes).await;
                    answer.refused(403, "not_a_member");
                }
            }
            let (path, body) = (self.path("/messages"), json!({ "content": "alone" }));
            let alone = Request::post(&self.owner, &path, body);
            owners[(round + 1) % NODES].ask(&alone).await.unwrap().ok();
            self.assert_forgotten(&mut redis).await;
            self.advance();
        }
    }

    /// Changes the members as the owner.
    async fn put(&self, wire: &mut Wire, method: &str, path: &str) {
        let request = Request {
            method,
            path,
            user: Some(&self.owner),
            body: (method == "PUT").then(|| json!({})),
        };
        wire.ask(&request).await.unwrap().ok();
    }

    /// Checks that no key still has the membership or an unread count of the member.
    async fn assert_forgotten(&self, redis: &mut MultiplexedConnection) {
        let (room, member) = (&self.id, &self.member);
        let known = redis.get(format!("membership:{room}:{member}")).await;
        let known: Option<String> = known.unwrap();
        assert_ne!(known.as_deref(), Some("1"));
        let waits = redis.exists(format!("unread:{member}:{room}")).await;
        let waits: bool = waits.unwrap();
        assert!(!waits, "{member} still has an unread count in {room}");
        let set = format!("conversation:{room}:participants");
        let listed: bool = redis.sismember(set, member).await.unwrap();
        assert!(!listed, "{member} is still listed in {room}");
    }
}

#[tokio::test]
async fn after_an_acknowledged_removal_every_node_rejects_the_member() {
    let mut world = World::start(Ground::Shared(NODES)).await;
    let nodes = world.addresses();
    let mut wire = world.wire(0);
    let redis = world.redis().connection().await;
    let (mut changers, mut askers) = (JoinSet::new(), JoinSet::new());
    for number in 0..ROOMS {
        let room = Arc::new(MembershipScenario {
            id: format!("room{number}"),
            owner: format!("owner{number}"),
            member: format!("member{number}"),
            nodes: nodes.clone(),
            token: user(&format!("member{number}")),
            phase: AtomicUsize::new(0),
        });
        let body = json!({ "id": room.id, "kind": "group" });
        let create = Request::post(&room.owner, "/v1/conversations", body);
        wire.ask(&create).await.unwrap().ok();
        let begin = Request::post(&room.member, "/v1/sessions", json!({}));
        wire.ask(&begin).await.unwrap().ok();
        for node in 0..NODES {
            askers.spawn(Arc::clone(&room).ask(node));
        }
        changers.spawn(room.change(redis.clone()));
    }
    let mut certain = 0;
    loop {
        tokio::select! {
            Some(done) = changers.join_next() => done.unwrap(),
            Some(test_request) = askers.join_next() => certain += test_request.unwrap(),
            else => break,
        }
    }
    assert!(certain > 0, "no request ran between two changes");
}
