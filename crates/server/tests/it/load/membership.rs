//! Members come and go on some nodes while they ask on all of them.
//!
//! Always true: from the moment a change was acknowledged, no node answers as it was before.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use serde_json::json;
use tokio::task::JoinSet;

use super::wire::{Answer, Request, Wire};
use super::world::{Ground, World};
use crate::http::callers::{service, user};

const NODES: usize = 3;
/// Conversations, in each of which one person comes and goes.
const ROOMS: usize = 4;
/// How often they do.
const ROUNDS: usize = 25;

/// The phases of a round: in the others a change is under way.
const PHASES: usize = 4;
const MEMBER: usize = 1;
const STRANGER: usize = 3;

struct MembershipScenario {
    id: String,
    owner: String,
    member: String,
    nodes: Vec<SocketAddr>,
    /// Of the member: a service may see everything.
    token: String,
    /// Rises with every beginning and every acknowledgement of a change.
    phase: AtomicUsize,
}

impl MembershipScenario {
    /// The member's connection to a node.
    fn wire(&self, node: usize) -> Wire {
        Wire::new(&[self.nodes[node]], 0, &self.token)
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/conversations/{}{rest}", self.id)
    }

    fn advance(&self) {
        self.phase.fetch_add(1, Ordering::SeqCst);
    }

    /// One question of the member: may they read, or write?
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

    /// Asks one node until all is over: what is asked within a phase is answered as the phase says. How often that was.
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

    /// Lets the member come and go.
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

    /// Changes the members for the owner.
    async fn put(&self, wire: &mut Wire, method: &str, path: &str) {
        let request = Request {
            method,
            path,
            user: Some(&self.owner),
            body: (method == "PUT").then(|| json!({})),
        };
        wire.ask(&request).await.unwrap().ok();
    }

    /// No key says that they belong here or that something waits for them.
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
            Some(asked) = askers.join_next() => certain += asked.unwrap(),
            else => break,
        }
    }
    assert!(certain > 0, "no request ran between two changes");
}
