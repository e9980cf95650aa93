//! Persistence tests: restarts, kills, full disks and corruption.

#![expect(
    clippy::unwrap_used,
    reason = "a test helper that fails makes its test fail"
)]

mod backpressure;
mod corruption;
mod data_folder;
mod disk_faults;
mod kill;
mod memory_only;
mod random_commands;
mod restart;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parlor_embedded::{EmbeddedEngine, EngineOpenError, EngineOptions, ManualClock};
use redis::{RedisError, Value};

use crate::dump::Dump;

/// Set for a test that runs in a child process: the folder of its store.
const CHILD_FOLDER_VAR: &str = "PARLOR_TEST_FOLDER";
/// A flush interval that never ends during a test.
const NO_FLUSH_INTERVAL: Duration = Duration::from_secs(3_600);

fn options(folder: &Path) -> EngineOptions {
    let clock = Arc::new(ManualClock::default());
    EngineOptions {
        data_folder: Some(folder.to_owned()),
        clock,
        flush_interval: NO_FLUSH_INTERVAL,
        ..EngineOptions::default()
    }
}

fn open(folder: &Path) -> EmbeddedEngine {
    EmbeddedEngine::open(options(folder)).expect("opening the store must succeed")
}

fn open_error(folder: &Path) -> EngineOpenError {
    EmbeddedEngine::open(options(folder))
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

async fn try_command(engine: &EmbeddedEngine, line: &str) -> Result<Value, RedisError> {
    command(line).query_async(&mut engine.connection()).await
}

async fn run_commands(engine: &EmbeddedEngine, lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        try_command(engine, line)
            .await
            .unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

async fn get_text(engine: &EmbeddedEngine, line: &str) -> Option<String> {
    command(line)
        .query_async(&mut engine.connection())
        .await
        .expect("a string")
}

/// Everything that a client of the engine can see.
async fn dump(engine: &EmbeddedEngine) -> Dump {
    crate::dump::dump(&mut engine.connection()).await
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
