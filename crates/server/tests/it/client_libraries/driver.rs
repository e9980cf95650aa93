//! Process with real clients, controlled by one JSON command per line.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Timeout of a test step.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Client library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// socket.io-client.
    Node,
    /// python-socketio.
    Python,
}

/// Process with clients; killed on drop.
pub struct Driver {
    _process: Child,
    commands: tokio::sync::Mutex<ChildStdin>,
    output: Arc<DriverOutput>,
    last: Mutex<u64>,
}

/// Output of the process.
#[derive(Default)]
struct DriverOutput {
    answers: Mutex<HashMap<u64, Result<Value, Value>>>,
    events: Mutex<HashMap<String, VecDeque<(String, Value)>>>,
    more: Notify,
}

impl Driver {
    pub fn start(language: Language) -> Self {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
        let here = crates.join("tests/it/client_libraries");
        let mut command = match language {
            Language::Node => {
                let mut node = Command::new("node");
                node.arg(here.join("driver.mjs"))
                    .env("NODE_PACKAGES", crates.join("../../web/package.json"));
                node
            }
            Language::Python => {
                let mut python = Command::new("python3");
                python
                    .arg(here.join("driver.py"))
                    .env("PYTHONPATH", crates.join("../../.tools/python-socketio"));
                python
            }
        };
        let spawned = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let mut process = spawned.unwrap_or_else(|error| panic!("{language:?}: {error}"));
        let output = Arc::new(DriverOutput::default());
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let to = Arc::clone(&output);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                to.take(&serde_json::from_str(&line).unwrap());
            }
        });
        Self {
            commands: tokio::sync::Mutex::new(process.stdin.take().unwrap()),
            _process: process,
            output,
            last: Mutex::new(0),
        }
    }

    /// Opens a socket; returns its id, or the error of a rejected handshake.
    pub async fn open(&self, socket: &str, url: &str, auth: Value) -> Result<Value, Value> {
        let transports = json!({ "transports": ["websocket"] });
        self.open_with(socket, url, auth, transports).await
    }

    pub async fn open_with(
        &self,
        socket: &str,
        url: &str,
        auth: Value,
        options: Value,
    ) -> Result<Value, Value> {
        let order =
            json!({ "do": "open", "socket": socket, "url": url, "auth": auth, "options": options });
        self.order(order).await
    }

    /// Emits an event and returns its acknowledgement.
    pub async fn emit(&self, socket: &str, event: &str, body: Value) -> Value {
        let order = json!({ "do": "emit", "socket": socket, "event": event, "body": body });
        self.order(order).await.unwrap()
    }

    /// Emits an event and returns its acknowledgement, which must be successful.
    pub async fn ok(&self, socket: &str, event: &str, body: Value) -> Value {
        let ack = self.emit(socket, event, body).await;
        assert_eq!(ack["ok"], true, "{socket} {event}: {ack}");
        ack
    }

    /// Emits an event that must be rejected and returns the error code.
    pub async fn refused(&self, socket: &str, event: &str, body: Value) -> String {
        let ack = self.emit(socket, event, body).await;
        assert_eq!(ack["ok"], false, "{socket} {event}: {ack}");
        let text = ack["error"]["message"].as_str();
        assert!(text.is_some_and(|text| !text.is_empty()), "{ack}");
        ack["error"]["code"].as_str().unwrap().to_owned()
    }

    /// Disconnects cleanly.
    pub async fn close(&self, socket: &str) {
        let order = json!({ "do": "close", "socket": socket });
        self.order(order).await.unwrap();
    }

    /// Drops the connection.
    pub async fn drop_line(&self, socket: &str) {
        let order = json!({ "do": "drop", "socket": socket });
        self.order(order).await.unwrap();
    }

    async fn order(&self, mut order: Value) -> Result<Value, Value> {
        let id = {
            let mut last = self.last.lock();
            *last += 1;
            *last
        };
        order["id"] = id.into();
        let line = format!("{order}\n");
        let mut orders = self.commands.lock().await;
        orders.write_all(line.as_bytes()).await.unwrap();
        drop(orders);
        self.output
            .until(&order.to_string(), |output| {
                output.answers.lock().remove(&id)
            })
            .await
    }

    /// Body of the first unread event of a socket with this name that matches.
    pub async fn next(&self, socket: &str, event: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let what = format!("{event} at {socket}");
        self.output
            .until(&what, |output| {
                let mut events = output.events.lock();
                let events = events.get_mut(socket)?;
                let found = |(name, body): &(String, Value)| name == event && fits(body);
                let at = events.iter().position(found)?;
                events.remove(at).map(|(_, body)| body)
            })
            .await
    }

    /// Removes and returns the unread events of a socket, in order.
    pub fn rest(&self, socket: &str) -> Vec<(String, Value)> {
        let mut events = self.output.events.lock();
        let events = events.get_mut(socket).map(std::mem::take);
        events.into_iter().flatten().collect()
    }
}

impl DriverOutput {
    fn take(&self, line: &Value) {
        if let Some(id) = line["id"].as_u64() {
            let answer = match line.get("error") {
                Some(error) => Err(error.clone()),
                None => Ok(line["answer"].clone()),
            };
            self.answers.lock().insert(id, answer);
        } else {
            let text = |name: &str| line[name].as_str().unwrap().to_owned();
            let event = (text("event"), line["args"][0].clone());
            let mut events = self.events.lock();
            events.entry(text("socket")).or_default().push_back(event);
        }
        self.more.notify_waiters();
    }

    async fn until<T>(&self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        let found = async {
            loop {
                let more = self.more.notified();
                tokio::pin!(more);
                more.as_mut().enable();
                if let Some(found) = look(self) {
                    return found;
                }
                more.await;
            }
        };
        let Ok(found) = timeout(TEST_TIMEOUT, found).await else {
            panic!("{what} did not arrive; received: {:?}", self.events.lock());
        };
        found
    }
}
