//! Records every command that Redis runs, and fails if Parlor deletes, expires or overwrites what it did not write.
//!
//! Invariants:
//! 1. The recorder starts on an empty Redis, so it sees every write.
//! 2. A connection belongs to Parlor unless its name (`CLIENT SETNAME`) is in [`OTHER_CLIENTS`].
//! 3. A command of a script belongs to the client of the `EVAL` or `EVALSHA` line before it: Redis runs one script at a
//!    time.
//! 4. Everything that a [`TakeoverRule`] does not allow is a violation.

mod apply;
mod apply_list;
mod apply_string;
mod keyspace;
mod line;
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use parlor_testkit::{Redis, eventually};
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use keyspace::KeyWriter;
pub use keyspace::{ChangeKind, ForeignChange, Keyspace};
use line::MonitoredCommand;

/// Name of the connections of an old service.
pub const OLD_SERVICE: &str = "old-service";
/// Name of the connections of a test.
const TEST: &str = "test";
/// Names of connections that are not Parlor's.
const OTHER_CLIENTS: [&str; 2] = [OLD_SERVICE, TEST];

/// Change that Parlor may make to what another service wrote, because Parlor has taken over the information.
pub struct TakeoverRule {
    /// Key; `*` stands for one identifier.
    pub key: &'static str,
    pub kind: ChangeKind,
    /// Why no information is lost. A violation of `allows` reports it.
    pub reason: &'static str,
    /// Whether this change keeps the information.
    pub allows: fn(&ForeignChange, &Keyspace) -> bool,
}

impl TakeoverRule {
    fn concerns(&self, change: &ForeignChange) -> bool {
        self.kind == change.kind && matches_key(self.key, &change.key)
    }
}

/// True if every part of the key, between colons, is the same or an asterisk.
fn matches_key(pattern: &str, key: &str) -> bool {
    let (mut pattern, mut key) = (pattern.split(':'), key.split(':'));
    loop {
        match (pattern.next(), key.next()) {
            (None, None) => return true,
            (Some(expected), Some(part)) if expected == "*" || expected == part => {}
            _ => return false,
        }
    }
}

/// Lines of `MONITOR` on one Redis.
pub struct MonitorRecorder {
    lines: Arc<Mutex<Vec<String>>>,
    connection: MultiplexedConnection,
}

impl MonitorRecorder {
    /// Starts to record on an empty Redis.
    pub async fn start(redis: &Redis) -> Self {
        let mut connection = test_connection(redis).await;
        let size: u64 = redis::cmd("DBSIZE")
            .query_async(&mut connection)
            .await
            .unwrap();
        assert_eq!(size, 0, "the recorder starts before the first write");
        let address = ("127.0.0.1", redis.port());
        let mut stream = BufReader::new(TcpStream::connect(address).await.unwrap());
        stream.write_all(b"MONITOR\r\n").await.unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&lines);
        tokio::spawn(async move {
            let mut line = String::new();
            while stream
                .read_line(&mut line)
                .await
                .is_ok_and(|length| length > 0)
            {
                to.lock().push(std::mem::take(&mut line));
            }
        });
        let recorder = Self { lines, connection };
        // The name of the test's connection is from before the first line, so it is sent again.
        recorder.catch_up().await;
        name_connection(&mut recorder.connection.clone()).await;
        recorder
    }

    /// Waits until all commands up to now are recorded.
    async fn catch_up(&self) {
        let mark = format!("mark-{}", self.lines.lock().len());
        eventually("MONITOR has recorded all commands", async || {
            let echo = redis::cmd("ECHO").arg(&mark).take();
            echo.exec_async(&mut self.connection.clone()).await.unwrap();
            let lines = self.lines.lock();
            lines.iter().rev().any(|line| line.contains(&mark))
        })
        .await;
    }

    /// Changes of Parlor to what it did not write, except those that the rules allow.
    pub async fn violations(&self, rules: &[TakeoverRule]) -> Vec<String> {
        self.catch_up().await;
        find_violations(&self.lines.lock(), rules)
    }
}

/// Opens a connection whose writes are not Parlor's.
pub async fn test_connection(redis: &Redis) -> MultiplexedConnection {
    let mut connection = redis.connection().await;
    name_connection(&mut connection).await;
    connection
}

async fn name_connection(connection: &mut MultiplexedConnection) {
    let name = redis::cmd("CLIENT").arg("SETNAME").arg(TEST).take();
    name.exec_async(connection).await.unwrap();
}

/// Follows the writes of all clients.
fn find_violations(lines: &[String], rules: &[TakeoverRule]) -> Vec<String> {
    let (mut keyspace, mut others) = (Keyspace::default(), HashSet::new());
    let (mut script_client, mut violations) = (String::new(), Vec::new());
    for line in lines {
        let Some(command) = MonitoredCommand::parse(line) else {
            continue;
        };
        let is_named =
            command.name == "CLIENT" && command.arguments[0].eq_ignore_ascii_case("SETNAME");
        if is_named && OTHER_CLIENTS.contains(&command.arguments[1].as_str()) {
            others.insert(command.client.clone());
        }
        if ["EVAL", "EVALSHA"].contains(&command.name.as_str()) {
            script_client.clone_from(&command.client);
        }
        let client = if command.client == "lua" {
            &script_client
        } else {
            &command.client
        };
        let is_other = others.contains(client);
        let writer = if is_other {
            KeyWriter::Other
        } else {
            KeyWriter::Parlor
        };
        match keyspace.apply(writer, &command) {
            Ok(changes) => {
                let judged = changes.iter().filter_map(|it| judge(it, &keyspace, rules));
                violations.extend(judged.map(|why| format!("{why}: {line}")));
            }
            Err(unknown) => violations.push(unknown),
        }
    }
    violations
}

/// Description of a change that no rule allows.
fn judge(change: &ForeignChange, keyspace: &Keyspace, rules: &[TakeoverRule]) -> Option<String> {
    let mut rules = rules.iter().filter(|rule| rule.concerns(change));
    let Some(rule) = rules.next() else {
        return Some(format!("{change:?}"));
    };
    let is_allowed =
        (rule.allows)(change, keyspace) || rules.any(|rule| (rule.allows)(change, keyspace));
    (!is_allowed).then(|| format!("{change:?}, although {}", rule.reason))
}
