//! HTTP clients of the load tests, which write and read.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parlor_testkit::eventually_within;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::deployment::{PLACES, USERS, World, conversation, places, user};
use super::retrying_client::{Request, Wire};
use crate::tokens::service;

/// Timeout of a test step.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);
/// A client repeats every n-th acknowledged send.
const REPEAT_EVERY: usize = 5;

/// Size of a load.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Maximum duration.
    pub length: Duration,
    /// Maximum steps per client; every second step is a message.
    pub steps_per_client: usize,
    /// Interval of the steps, if the responses arrive in time.
    pub step_interval: Duration,
}

/// An acknowledged message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AcknowledgedMessage {
    pub conversation: String,
    pub seq: u64,
    pub id: String,
    pub sender: String,
    pub client_id: String,
}

/// A running load.
pub struct Course {
    size: Size,
    nodes: Vec<SocketAddr>,
    token: String,
    acknowledged: watch::Sender<usize>,
    running: AtomicUsize,
    /// Clients send nothing more to conversations with even numbers, so that no later message repairs them.
    quiet: AtomicBool,
}

impl Course {
    pub fn new(world: &World, size: Size) -> Arc<Self> {
        Arc::new(Self {
            size,
            nodes: world.addresses(),
            token: service(),
            acknowledged: watch::Sender::new(0),
            running: AtomicUsize::new(USERS),
            quiet: AtomicBool::new(false),
        })
    }

    /// Waits until this number of messages was acknowledged.
    pub async fn reaches(&self, messages: usize) {
        let mut count = self.acknowledged.subscribe();
        let enough = count.wait_for(|count| *count >= messages);
        let enough = tokio::time::timeout(TEST_TIMEOUT, enough).await;
        let running = self.running.load(Ordering::Relaxed);
        let seen = *self.acknowledged.borrow();
        assert!(enough.is_ok(), "{seen} acknowledged, {running} clients run");
    }

    /// Stops the messages to conversations with even numbers.
    pub fn calm(&self) {
        self.quiet.store(true, Ordering::Relaxed);
    }

    /// Runs all clients and returns the acknowledged messages.
    pub async fn run(self: &Arc<Self>) -> Vec<AcknowledgedMessage> {
        let client = |number| async move {
            let sent = Client::new(number, Arc::clone(self)).run().await;
            self.running.fetch_sub(1, Ordering::Relaxed);
            sent
        };
        let mut all = join_all((0..USERS).map(client)).await.concat();
        all.sort();
        all
    }
}

struct Client {
    number: usize,
    name: String,
    wire: Wire,
    course: Arc<Course>,
    sent: Vec<AcknowledgedMessage>,
}

impl Client {
    fn new(number: usize, course: Arc<Course>) -> Self {
        Self {
            number,
            name: user(number),
            wire: Wire::new(&course.nodes, number, &course.token),
            course,
            sent: Vec::new(),
        }
    }

    async fn run(mut self) -> Vec<AcknowledgedMessage> {
        let end = Instant::now() + self.course.size.length;
        let mut pace = interval(self.course.size.step_interval);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for step in 0..self.course.size.steps_per_client {
            pace.tick().await;
            if Instant::now() > end {
                break;
            }
            let place = places(self.number)[(step / 2) % PLACES];
            let path = format!("/v1/conversations/{}", conversation(place));
            let quiet = place.is_multiple_of(2) && self.course.quiet.load(Ordering::Relaxed);
            match (step + self.number) % 4 {
                0 | 2 if quiet => {}
                0 | 2 => self.send(&path, step).await,
                1 => self.mark(&path, step).await,
                _ => self.look(&path).await,
            }
        }
        self.sent
    }

    async fn send(&mut self, path: &str, step: usize) {
        let client_id = format!("{}-{step}", self.name);
        let message = self.put(path, &client_id).await;
        self.course.acknowledged.send_modify(|count| *count += 1);
        if self.sent.len().is_multiple_of(REPEAT_EVERY) {
            assert_eq!(self.put(path, &client_id).await, message);
        }
        let text = |name: &str| message[name].as_str().unwrap().to_owned();
        self.sent.push(AcknowledgedMessage {
            conversation: text("conversationId"),
            seq: message["seq"].as_u64().unwrap(),
            id: text("id"),
            sender: text("senderId"),
            client_id,
        });
    }

    async fn put(&mut self, path: &str, client_id: &str) -> Value {
        let body = json!({ "content": client_id, "clientId": client_id });
        let message = self.request_until_success("POST", format!("{path}/messages"), Some(body));
        let message = message.await;
        assert_eq!(message["clientId"], client_id);
        message
    }

    /// Marks all messages as read, marks messages up to one as read, or marks one as unread.
    async fn mark(&mut self, path: &str, step: usize) {
        let own = self.sent.last().map_or(1, |it| it.seq);
        let (what, body) = match (step / 4) % 3 {
            0 => ("read", json!({})),
            1 => ("read", json!({ "seq": own })),
            _ => ("unread", json!({ "seq": own })),
        };
        let badge = self.request_until_success("POST", format!("{path}/{what}"), Some(body));
        let badge = badge.await;
        assert!(badge["unread"].as_u64() <= badge["total"].as_u64());
    }

    /// Reads the newest messages, which must have no gap.
    async fn look(&mut self, path: &str) {
        let page = self.request_until_success("GET", format!("{path}/messages?limit=30"), None);
        let page = page.await;
        let seqs = page["messages"].as_array().unwrap().iter();
        let seqs: Vec<u64> = seqs.map(|it| it["seq"].as_u64().unwrap()).collect();
        let whole = seqs.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        assert!(whole, "{path}: {seqs:?}");
        let first = seqs.first().copied().unwrap_or(1);
        assert_eq!(page["hasMore"], first > 1, "{path}: {seqs:?}");
    }

    /// Repeats a request until the response is not 503.
    async fn request_until_success(
        &mut self,
        method: &str,
        path: String,
        body: Option<Value>,
    ) -> Value {
        let request = Request {
            method,
            path: &path,
            user: Some(&self.name),
            body,
        };
        let wire = &mut self.wire;
        eventually_within(TEST_TIMEOUT, &path, async || {
            let answer = wire.ask(&request).await.map_err(|it| it.to_string())?;
            match answer.status {
                503 => Err(format!("{answer:?}")),
                _ => Ok(Some(answer.ok())),
            }
        })
        .await
    }
}
