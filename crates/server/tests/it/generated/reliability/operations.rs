//! The operations of the table, and the node that they run on.

use std::sync::atomic::{AtomicU64, Ordering};

use parlor_testkit::{ServerProcess, ServerProcessOptions, eventually};
use serde_json::{Value, json};

use super::FaultColumn;
use crate::http::client::{TestRequest, TestResponse, call, node, ready};
use crate::support::get;
use crate::tokens::{service, user};

/// Requests of which none may fill the log.
const FLOOD: usize = 100;
/// Error lines that a fault may write, however many requests it fails.
const MAX_ERROR_LINES: usize = 5;

/// An operation: its name in the table, and a request whose arguments depend on a number that is used once.
pub(super) type ListedOperation = (&'static str, fn(u64) -> TestRequest);

pub(super) const OPERATIONS: [ListedOperation; 8] = [
    ("send a message", |number| {
        let post = call("POST", "/v1/conversations/room/messages").by(&user("alice"));
        post.json(json!({ "content": number.to_string() }))
    }),
    ("create a conversation", |number| {
        let post = call("POST", "/v1/conversations").by(&user("alice"));
        post.json(json!({ "id": format!("c{number}"), "kind": "group", "members": ["bob"] }))
    }),
    ("begin a session", |number| {
        call("POST", "/v1/sessions").by(&user(&format!("u{number}")))
    }),
    ("read the history", |_| {
        call("GET", "/v1/conversations/room/messages").by(&user("bob"))
    }),
    // The status of another user each time, because a status that stays the same is not written.
    ("set a status", |number| {
        let put = call("PUT", &format!("/v1/users/u{number}/presence")).by(&service());
        put.json(json!({ "status": "offline" }))
    }),
    ("send a heartbeat", |_| {
        call("POST", "/v1/users/alice/presence/heartbeat").by(&user("alice"))
    }),
    ("show typing", |_| {
        let put = call("PUT", "/v1/conversations/room/typing").by(&user("alice"));
        put.json(json!({ "typing": true }))
    }),
    ("read unread counts", |_| {
        call("GET", "/v1/unread").by(&user("bob"))
    }),
];

/// A running node with a conversation.
pub(super) struct FaultyNode {
    node: ServerProcess,
    next_number: AtomicU64,
}

impl FaultyNode {
    pub(super) fn options() -> ServerProcessOptions {
        node()
            .env("PARLOR_DATABASE__TIMEOUT", "1s")
            .env("PARLOR_LIMITS__MESSAGES", "10000")
            .env("PARLOR_LIMITS__HTTP", "10000")
    }

    pub(super) async fn start(options: ServerProcessOptions) -> Self {
        let node = Self {
            node: ready(options).await,
            next_number: AtomicU64::new(0),
        };
        let room = json!({ "id": "room", "kind": "group", "members": ["bob"] });
        let create = call("POST", "/v1/conversations").by(&user("alice"));
        create.json(room).at(&node.node).await.created();
        node.wait_until_everything_works().await;
        node
    }

    /// Runs an operation with new arguments.
    pub(super) async fn run(&self, (_, request): ListedOperation) -> TestResponse {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        request(number).at(&self.node).await
    }

    async fn readiness(&self, path: &str) -> (u16, Value) {
        get(&self.node.http_url(), path).await.unwrap()
    }

    /// Waits until `/readyz` names the code of the fault for this part. Sends requests meanwhile, because the node learns
    /// of some faults only from them.
    pub(super) async fn wait_until_reported(&self, part: &str, code: &str) {
        eventually("the node reports the fault", async || {
            self.run(OPERATIONS[1]).await;
            let (_, answer) = self.readiness("/readyz").await;
            let found = &answer["parts"][part];
            match found["code"] == code && found["ready"] == false {
                true => Ok(()),
                false => Err(answer),
            }
        })
        .await;
    }

    /// Runs every operation once.
    pub(super) async fn column(&self, title: &'static str) -> FaultColumn {
        let mut cells = Vec::new();
        for operation in OPERATIONS {
            cells.push(match self.run(operation).await {
                response if response.status < 300 => "ok".to_owned(),
                response => {
                    let (status, code) = response.refusal();
                    assert_ne!(code, "internal", "{title}: {}: {response:?}", operation.0);
                    format!("{status} `{code}`")
                }
            });
        }
        FaultColumn { title, cells }
    }

    /// Sends many requests that the fault concerns, and checks that they do not fill the log.
    pub(super) async fn assert_log_is_bounded(&self, title: &str, operation: ListedOperation) {
        let before = self.error_lines().len();
        for _ in 0..FLOOD {
            self.run(operation).await;
        }
        let lines = self.error_lines().split_off(before);
        assert!(lines.len() <= MAX_ERROR_LINES, "{title}: {lines:#?}");
    }

    fn error_lines(&self) -> Vec<String> {
        let output = self.node.output();
        let errors = output.lines().filter(|line| line.contains("\"ERROR\""));
        errors.map(str::to_owned).collect()
    }

    /// Waits until the node is ready and every operation succeeds.
    pub(super) async fn wait_until_everything_works(&self) {
        eventually("the node is ready", async || {
            let (status, answer) = self.readiness("/readyz?strict").await;
            if status == 200 { Ok(()) } else { Err(answer) }
        })
        .await;
        for operation in OPERATIONS {
            eventually(operation.0, async || {
                let response = self.run(operation).await;
                match response.status < 300 {
                    true => Ok(()),
                    false => Err(format!("{}: {response:?}", operation.0)),
                }
            })
            .await;
        }
    }
}
