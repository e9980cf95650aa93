//! Program of another language, controlled by a test with one JSON request per line.
//!
//! Request:  `{"id", "do", …}`
//! Response: `{"id", "answer"}` or `{"id", "error"}`
//! Event:    `{"source", "event", "args"}`: the program has received something, for example at a socket or a channel

use std::collections::{HashMap, VecDeque};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Timeout of a test step.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Running program; killed on drop.
pub struct ControlledProgram {
    _process: Child,
    requests: tokio::sync::Mutex<ChildStdin>,
    output: Arc<ProgramOutput>,
    last_id: Mutex<u64>,
}

/// Output of the program that no test step has read.
#[derive(Default)]
struct ProgramOutput {
    answers: Mutex<HashMap<u64, Result<Value, Value>>>,
    events: Mutex<HashMap<String, VecDeque<(String, Value)>>>,
    changed: Notify,
}

impl ControlledProgram {
    pub fn start(mut command: Command) -> Self {
        let spawned = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let mut process = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let output = Arc::new(ProgramOutput::default());
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let to = Arc::clone(&output);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                to.take(&serde_json::from_str(&line).unwrap());
            }
        });
        Self {
            requests: tokio::sync::Mutex::new(process.stdin.take().unwrap()),
            _process: process,
            output,
            last_id: Mutex::new(0),
        }
    }

    /// Sends a request and waits for the answer, or for the error.
    pub async fn request(&self, mut request: Value) -> Result<Value, Value> {
        let id = {
            let mut last = self.last_id.lock();
            *last += 1;
            *last
        };
        request["id"] = id.into();
        let line = format!("{request}\n");
        let mut requests = self.requests.lock().await;
        requests.write_all(line.as_bytes()).await.unwrap();
        drop(requests);
        let answer = |output: &ProgramOutput| output.answers.lock().remove(&id);
        self.output.wait_for(&request.to_string(), answer).await
    }

    /// Removes and returns the body of the first unread event of a source with this name that matches.
    pub async fn next(&self, source: &str, event: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let what = format!("{event} at {source}");
        self.output
            .wait_for(&what, |output| {
                let mut events = output.events.lock();
                let events = events.get_mut(source)?;
                let found = |(name, body): &(String, Value)| name == event && fits(body);
                let at = events.iter().position(found)?;
                events.remove(at).map(|(_, body)| body)
            })
            .await
    }

    /// Removes and returns the unread events of a source, in order.
    pub fn rest(&self, source: &str) -> Vec<(String, Value)> {
        let mut events = self.output.events.lock();
        let events = events.get_mut(source).map(std::mem::take);
        events.into_iter().flatten().collect()
    }
}

impl ProgramOutput {
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
            events.entry(text("source")).or_default().push_back(event);
        }
        self.changed.notify_waiters();
    }

    async fn wait_for<T>(&self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        let found = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if let Some(found) = look(self) {
                    return found;
                }
                changed.await;
            }
        };
        let Ok(found) = timeout(TEST_TIMEOUT, found).await else {
            panic!("{what} did not arrive; received: {:?}", self.events.lock());
        };
        found
    }
}
