//! Service that a document describes, as a program of its own: it uses Redis with the commands of the document.

use std::path::Path;

use parlor_testkit::{Redis, eventually};
use serde_json::{Value, json};
use tokio::process::Command;

use super::monitor::OLD_SERVICE;
use crate::controlled_program::ControlledProgram;

/// Running service; killed on drop.
pub struct OldService(ControlledProgram);

impl OldService {
    /// Starts a program of `old_services/`, by the language of its file.
    pub async fn start(program: &str, redis: &Redis) -> Self {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = crates.join("tests/it/documents/old_services").join(program);
        let mut command = if program.ends_with(".py") {
            let mut python = Command::new("python3");
            python.env("PYTHONPATH", crates.join("../../.tools/python"));
            python.env("PYTHONDONTWRITEBYTECODE", "1");
            python
        } else {
            let mut node = Command::new("node");
            node.env("NODE_PACKAGES", crates.join("../../web/package.json"));
            node
        };
        command.arg(file).env("REDIS_URL", redis.url());
        command.env("CONNECTION_NAME", OLD_SERVICE);
        let service = Self(ControlledProgram::start(command));
        // The first answer proves that the program and its packages are installed.
        assert_eq!(service.run("PING").await, "PONG");
        service
    }

    /// Runs one command line of the document, and returns its reply. A word may be quoted: `'…'` or `"…"`. A word that
    /// begins with `#` ends the line, as in the examples of the documents.
    pub async fn run(&self, line: &str) -> Value {
        let words = split_words(line);
        let request = json!({ "do": "run", "words": words });
        self.0
            .request(request)
            .await
            .unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// Repeats a read until it returns this value.
    pub async fn wait_for(&self, line: &str, value: impl Into<Value>) {
        let value = value.into();
        let what = format!("{line}: {value}");
        eventually(&what, async || self.run(line).await == value).await;
    }

    /// Calls a function of the service, for example `isUserOnline`.
    pub async fn call(&self, function: &str, arguments: Value) -> Value {
        let request = json!({ "do": "call", "function": function, "arguments": arguments });
        self.0
            .request(request)
            .await
            .unwrap_or_else(|error| panic!("{function}: {error}"))
    }

    /// Subscribes to a channel.
    pub async fn subscribe(&self, channel: &str) {
        let request = json!({ "do": "subscribe", "channel": channel });
        self.0.request(request).await.unwrap();
    }

    /// Waits for a message on a subscribed channel that matches, as JSON.
    pub async fn next_message(&self, channel: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.0.next(channel, "message", fits).await
    }

    /// Removes and returns the messages of a channel that no step has read, in order.
    pub fn rest(&self, channel: &str) -> Vec<Value> {
        let messages = self.0.rest(channel).into_iter();
        messages.map(|(_, message)| message).collect()
    }
}

fn split_words(line: &str) -> Vec<String> {
    let (mut words, mut characters) = (Vec::new(), line.trim().chars().peekable());
    while let Some(&first) = characters.peek() {
        match first {
            ' ' => {
                characters.next();
            }
            '#' => break,
            '\'' | '"' => {
                characters.next();
                words.push(characters.by_ref().take_while(|it| *it != first).collect());
            }
            _ => {
                let mut word = String::new();
                while let Some(next) = characters.next_if(|it| *it != ' ') {
                    word.push(next);
                }
                words.push(word);
            }
        }
    }
    words
}

#[test]
fn a_command_line_is_split_at_spaces_outside_of_quotes() {
    let words = split_words(r#"LPUSH list '{"a": "b c"}' "x y"  z # a comment"#);
    assert_eq!(words, ["LPUSH", "list", r#"{"a": "b c"}"#, "x y", "z"]);
}
