//! Persistence tests: restarts, kills, full disks and corruption.

#![expect(
    clippy::unwrap_used,
    reason = "a test helper that fails makes its test fail"
)]

mod damage;
mod faults;
mod folder;
mod in_memory;
mod kill;
mod pressure;
mod random;
mod survive;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parlor_embedded::{Engine, EngineOpenError, EngineOptions, ManualClock};
use redis::{RedisError, Value};

/// Set for a test that runs in a child process: the folder of its store.
const CHILD_FOLDER_VAR: &str = "PARLOR_TEST_FOLDER";
/// A flush interval that never ends during a test.
const NO_FLUSH_INTERVAL: Duration = Duration::from_secs(3_600);

fn options(folder: &Path) -> EngineOptions {
    let clock = Arc::new(ManualClock::default());
    EngineOptions {
        path: Some(folder.to_owned()),
        clock,
        flush_interval: NO_FLUSH_INTERVAL,
        ..EngineOptions::default()
    }
}

fn open(folder: &Path) -> Engine {
    Engine::open(options(folder)).expect("opening the store must succeed")
}

fn open_error(folder: &Path) -> EngineOpenError {
    Engine::open(options(folder))
        .map(drop)
        .expect_err("opening the store must fail")
}

fn command(line: &str) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    for word in line.split(' ') {
        command.arg(word);
    }
    command
}

async fn try_command(engine: &Engine, line: &str) -> Result<Value, RedisError> {
    command(line).query_async(&mut engine.connection()).await
}

async fn run_commands(engine: &Engine, lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        try_command(engine, line)
            .await
            .unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

async fn get_text(engine: &Engine, line: &str) -> Option<String> {
    command(line)
        .query_async(&mut engine.connection())
        .await
        .expect("a string")
}

type Dump = BTreeMap<Vec<u8>, (String, Vec<Vec<u8>>, i64)>;

/// Everything that a client can see: type, content and TTL of each key.
async fn dump(engine: &Engine) -> Dump {
    let mut connection = engine.connection();
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS")
        .arg("*")
        .query_async(&mut connection)
        .await
        .expect("keys");
    let mut dump = Dump::new();
    for key in keys {
        let kind: String = redis::cmd("TYPE")
            .arg(&key)
            .query_async(&mut connection)
            .await
            .expect("a type");
        let ttl: i64 = redis::cmd("PTTL")
            .arg(&key)
            .query_async(&mut connection)
            .await
            .expect("a TTL");
        let mut read = match &*kind {
            "string" => redis::cmd("MGET"),
            "hash" => redis::cmd("HGETALL"),
            "set" => redis::cmd("SMEMBERS"),
            "list" => redis::cmd("LRANGE"),
            "zset" => redis::cmd("ZRANGE"),
            other => panic!("a key of type {other}"),
        };
        match &*kind {
            "list" => read.arg(&key).arg(0).arg(-1),
            "zset" => read.arg(&key).arg(0).arg(-1).arg("WITHSCORES"),
            _ => read.arg(&key),
        };
        let mut items: Vec<Vec<u8>> = read.query_async(&mut connection).await.expect("items");
        match &*kind {
            "set" => items.sort(),
            "hash" => {
                let mut fields: Vec<_> = items.chunks(2).map(<[_]>::to_vec).collect();
                fields.sort();
                items = fields.concat();
            }
            _ => {}
        }
        dump.insert(key, (kind, items, ttl));
    }
    dump
}

/// Folder that this process was started for, if it is a child process.
fn child_folder() -> Option<PathBuf> {
    std::env::var_os(CHILD_FOLDER_VAR).map(PathBuf::from)
}

/// Command that runs one test of this binary in a child process.
fn child(test: &str, folder: &Path, settings: &[(&str, OsString)]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["--exact", test, "--nocapture", "--test-threads", "1"]);
    command
        .env(CHILD_FOLDER_VAR, folder)
        .envs(settings.iter().map(|(name, value)| (name, value)));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}
