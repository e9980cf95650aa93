//! Process with real clients, controlled by one JSON command per line.

use std::path::Path;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::controlled_program::ControlledProgram;

/// Client library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// socket.io-client.
    Node,
    /// python-socketio.
    Python,
}

/// Process with clients; killed on drop.
pub struct Driver(ControlledProgram);

impl Driver {
    pub fn start(language: Language) -> Self {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
        let here = crates.join("tests/it/client_libraries");
        let command = match language {
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
        Self(ControlledProgram::start(command))
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
        self.0.request(order).await
    }

    /// Emits an event and returns its acknowledgement.
    pub async fn emit(&self, socket: &str, event: &str, body: Value) -> Value {
        let order = json!({ "do": "emit", "socket": socket, "event": event, "body": body });
        self.0.request(order).await.unwrap()
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
        self.0.request(order).await.unwrap();
    }

    /// Drops the connection.
    pub async fn drop_line(&self, socket: &str) {
        let order = json!({ "do": "drop", "socket": socket });
        self.0.request(order).await.unwrap();
    }

    /// Body of the first unread event of a socket with this name that matches.
    pub async fn next(&self, socket: &str, event: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.0.next(socket, event, fits).await
    }

    /// Removes and returns the unread events of a socket, in order.
    pub fn rest(&self, socket: &str) -> Vec<(String, Value)> {
        self.0.rest(socket)
    }
}
