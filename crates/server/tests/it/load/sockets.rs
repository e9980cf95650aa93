//! Many sockets connect and disconnect while a node is killed: no socket misses a message or gets one twice.
//!
//! Invariants:
//! 1. A socket that has joined a conversation receives its messages in the order of `seq`, without gaps. Every event is
//!    checked.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parlor_testkit::{SocketIoClientError, SocketIoTestClient, eventually_within};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::deployment::{Ground, World, conversation, places, user};
use crate::tokens;

/// Number of sockets; several can be devices of one user.
const CLIENTS: usize = 500;
/// Steps per socket.
const STEPS_PER_CLIENT: usize = 12;
/// Number of messages before a node is killed.
const SHUTDOWN_AFTER: usize = 600;
/// Timeout of a test step.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// State that all clients share.
struct Course {
    nodes: Vec<SocketAddr>,
    sent: watch::Sender<usize>,
}

/// A conversation as one client knows it.
#[derive(Default)]
struct Log {
    messages: Vec<KnownMessage>,
    rev: u64,
    follows: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownMessage {
    id: String,
    content: String,
    rev: u64,
}

impl Log {
    /// Adds a message that this client does not have: it must have the next `seq`.
    fn add(&mut self, who: &str, message: &Value) {
        let seq = message["seq"].as_u64().unwrap();
        assert_eq!(seq, self.messages.len() as u64 + 1, "{who}: {message}");
        self.messages.push(KnownMessage::of(message));
        self.rev = self.rev.max(message["rev"].as_u64().unwrap());
    }

    /// Applies another version of a message that this client has.
    fn change(&mut self, message: &Value) {
        let at = message["seq"].as_u64().unwrap() as usize - 1;
        let new = KnownMessage::of(message);
        self.rev = self.rev.max(new.rev);
        if self.messages[at].rev < new.rev {
            self.messages[at] = new;
        }
    }

    fn take(&mut self, who: &str, message: &Value) {
        match message["seq"].as_u64().unwrap() as usize > self.messages.len() {
            true => self.add(who, message),
            false => self.change(message),
        }
    }
}

impl KnownMessage {
    fn of(message: &Value) -> Self {
        let text = |name: &str| message[name].as_str().unwrap().to_owned();
        Self {
            id: text("id"),
            content: text("content"),
            rev: message["rev"].as_u64().unwrap(),
        }
    }
}

struct Client {
    name: String,
    auth: Value,
    course: Arc<Course>,
    random: StdRng,
    socket: Option<SocketIoTestClient>,
    logs: BTreeMap<String, Log>,
}

impl Client {
    fn new(number: usize, course: &Arc<Course>) -> Self {
        let name = user(number);
        let places = places(number).map(|place| (conversation(place), Log::default()));
        Self {
            auth: json!({ "token": tokens::user(&name), "deviceId": format!("d{number}") }),
            name: format!("{name} on d{number}"),
            course: Arc::clone(course),
            random: StdRng::seed_from_u64(number as u64),
            socket: None,
            logs: places.into(),
        }
    }

    async fn run(mut self) -> Self {
        for step in 0..STEPS_PER_CLIENT {
            let place = self.random_conversation();
            match self.random.random_range(0..10) {
                0 => self.drop_connection().await,
                1 => self.leave(&place).await,
                2..=4 => self.join(&place).await,
                5 => self.edit(&place).await,
                _ => self.send(&place, step).await,
            }
            let pause = self.random.random_range(1..200);
            self.listen(Duration::from_millis(pause)).await;
        }
        self
    }

    /// Joins all conversations and waits for the missing messages and changes.
    async fn finish(mut self, history: &BTreeMap<String, Vec<(String, String)>>) {
        let places: Vec<String> = self.logs.keys().cloned().collect();
        for place in &places {
            if !self.logs[place].follows {
                self.join(place).await;
            }
        }
        let known = |log: &Log| {
            let messages = log.messages.iter();
            let known = messages.map(|it| (it.id.clone(), it.content.clone()));
            known.collect::<Vec<_>>()
        };
        let all = timeout(TEST_TIMEOUT, async {
            while self
                .logs
                .iter()
                .any(|(place, log)| known(log) != history[place])
            {
                self.listen(Duration::from_secs(1)).await;
            }
        });
        if all.await.is_err() {
            for (place, log) in &self.logs {
                assert_eq!(known(log), history[place], "{} in {place}", self.name);
            }
        }
    }

    fn random_conversation(&mut self) -> String {
        let at = self.random.random_range(0..self.logs.len());
        self.logs.keys().nth(at).unwrap().clone()
    }

    async fn send(&mut self, place: &str, step: usize) {
        let client_id = format!("{}-{step}", self.auth["deviceId"].as_str().unwrap());
        let body = json!({ "conversationId": place, "content": client_id, "clientId": client_id });
        self.call("message:send", &body).await;
        self.course.sent.send_modify(|sent| *sent += 1);
    }

    /// Edits the last message of a conversation. The server rejects it if the message belongs to another user.
    async fn edit(&mut self, place: &str) {
        let seq = self.logs[place].messages.len();
        if seq > 0 {
            let body = json!({ "conversationId": place, "seq": seq, "content": format!("edited by {}", self.name) });
            self.ask("message:edit", &body).await;
        }
    }

    async fn join(&mut self, place: &str) {
        let log = &self.logs[place];
        let mut body = json!({ "conversationId": place, "afterSeq": log.messages.len() });
        if log.rev > 0 {
            body["afterRev"] = log.rev.into();
        }
        if log.follows {
            return;
        }
        let ack = self.call("conversation:join", &body).await;
        let log = self.logs.get_mut(place).unwrap();
        if log.follows {
            // The connection was lost meanwhile, and the handshake of the new one has joined the conversation.
            return;
        }
        log.follows = true;
        assert_eq!(ack["hasMore"], false, "{ack}");
        for message in ack["missed"].as_array().unwrap() {
            log.take(&self.name, message);
        }
        assert_eq!(ack["lastSeq"], log.messages.len(), "{}: {ack}", self.name);
        log.rev = log.rev.max(ack["rev"].as_u64().unwrap());
    }

    async fn leave(&mut self, place: &str) {
        let body = json!({ "conversationId": place });
        self.call("conversation:leave", &body).await;
        self.logs.get_mut(place).unwrap().follows = false;
    }

    /// Drops the connection, with or without a disconnect packet.
    async fn drop_connection(&mut self) {
        if let Some(socket) = self.socket.take()
            && self.random.random_bool(0.5)
        {
            // The connection may already be closed.
            let _ = socket.disconnect().await;
        }
    }

    async fn call(&mut self, event: &str, body: &Value) -> Value {
        let ack = self.ask(event, body).await;
        assert_eq!(ack["ok"], true, "{} {event}: {ack}", self.name);
        ack
    }

    /// Emits an event until it is acknowledged without a retryable error.
    async fn ask(&mut self, event: &str, body: &Value) -> Value {
        let what = format!("{} gets an acknowledgement of {event}", self.name);
        eventually_within(TEST_TIMEOUT, &what, async || {
            self.ask_once(event, body).await
        })
        .await
    }

    /// Emits an event once. Applies the events before its acknowledgement, and returns the acknowledgement unless its
    /// error is retryable.
    async fn ask_once(&mut self, event: &str, body: &Value) -> Option<Value> {
        let mut socket = self.connected().await;
        let mut body = body.clone();
        if event == "conversation:join" {
            // The handshake of a new connection may have joined the conversation and changed the position.
            let log = &self.logs[body["conversationId"].as_str().unwrap()];
            if log.follows {
                self.socket = Some(socket);
                return Some(json!({ "ok": true }));
            }
            body["afterSeq"] = log.messages.len().into();
        }
        let answer = socket.emit_with_ack(event, &body).await;
        self.apply_events(socket.take_queued_events());
        match answer {
            Ok(ack) => {
                self.socket = Some(socket);
                let again = ack["error"]["code"].as_str().is_some_and(temporary);
                (!again).then_some(ack)
            }
            Err(SocketIoClientError::Closed(_)) => None,
            Err(SocketIoClientError::Rejected(why)) => panic!("{}: {why}", self.name),
        }
    }

    /// Applies the events that arrive within this time, or until the connection is closed.
    async fn listen(&mut self, length: Duration) {
        let mut socket = self.connected().await;
        let closed = timeout(length, async {
            while let Ok(event) = socket.next_event().await {
                self.apply_events(vec![event]);
            }
        })
        .await;
        self.apply_events(socket.take_queued_events());
        if closed.is_err() {
            self.socket = Some(socket);
        }
    }

    fn apply_events(&mut self, events: Vec<(String, Value)>) {
        for (event, body) in events {
            let place = body["conversationId"].as_str().unwrap_or_default();
            let log = self.logs.get_mut(place);
            match (event.as_str(), log) {
                ("message:new", Some(log)) => {
                    assert!(log.follows, "{} has not joined: {body}", self.name);
                    log.add(&self.name, &body);
                }
                ("message:edited", Some(log)) => log.change(&body),
                _ => {}
            }
        }
    }

    /// The open connection, or a new one to a random node that resumes the joined conversations.
    async fn connected(&mut self) -> SocketIoTestClient {
        if let Some(socket) = self.socket.take() {
            return socket;
        }
        let followed = self.logs.iter().filter(|(_, log)| log.follows);
        let resume = followed.map(|(place, log)| {
            let known = json!({ "seq": log.messages.len(), "rev": log.rev });
            (place.clone(), known)
        });
        self.auth["resume"] = Value::Object(resume.collect::<Map<_, _>>());
        let what = format!("a node accepts {}", self.name);
        eventually_within(TEST_TIMEOUT, &what, async || {
            let node = self.random.random_range(0..self.course.nodes.len());
            match SocketIoTestClient::connect(self.course.nodes[node], &self.auth).await {
                Ok(socket) => Some(socket),
                Err(SocketIoClientError::Closed(_)) => None,
                Err(SocketIoClientError::Rejected(why)) => {
                    let code = why["code"].as_str();
                    assert!(code.is_some_and(temporary), "{}: {why}", self.name);
                    None
                }
            }
        })
        .await
    }
}

/// True for a retryable error code.
fn temporary(code: &str) -> bool {
    matches!(
        code,
        "store_unavailable" | "database_unavailable" | "shutting_down" | "rate_limited"
    )
}

/// Rows of the messages by conversation: id and text of each.
async fn history(world: &World) -> BTreeMap<String, Vec<(String, String)>> {
    let rows = world
        .rows("SELECT conversation_id || '|' || id || '|' || content FROM messages ORDER BY conversation_id, seq")
        .await;
    let all: BTreeSet<usize> = (0..CLIENTS).flat_map(places).collect();
    let mut history: BTreeMap<_, Vec<_>> = all
        .into_iter()
        .map(|it| (conversation(it), Vec::new()))
        .collect();
    for row in rows {
        let [place, id, content] = row.splitn(3, '|').collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        history
            .get_mut(place)
            .unwrap()
            .push((id.to_owned(), content.to_owned()));
    }
    history
}

#[tokio::test]
async fn five_hundred_sockets_miss_nothing_while_one_of_two_nodes_stops() {
    let mut world = World::populated(Ground::Shared(2)).await;
    let course = Arc::new(Course {
        nodes: world.addresses(),
        sent: watch::Sender::new(0),
    });
    let clients = (0..CLIENTS).map(|number| Client::new(number, &course).run());
    let middle = async {
        let mut sent = course.sent.subscribe();
        let enough = timeout(TEST_TIMEOUT, sent.wait_for(|sent| *sent >= SHUTDOWN_AFTER));
        enough.await.unwrap().unwrap();
        world.nodes[1].kill9();
    };
    let (clients, ()) = tokio::join!(join_all(clients), middle);
    let history = history(&world).await;
    let written: usize = history.values().map(Vec::len).sum();
    assert_eq!(written, *course.sent.borrow());
    join_all(clients.into_iter().map(|client| client.finish(&history))).await;
}
