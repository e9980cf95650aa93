//! A killed process loses at most its last flush interval, and the file never contains a part of a batch.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parlor_embedded::{EmbeddedEngine, EngineOpenError, EngineOptions};
use tempfile::TempDir;

use super::{child, child_folder, open, open_error};

const KILL_ROUNDS: u64 = 50;
const WRITER: &str = "persistence::kill::the_writer_runs_until_it_is_killed";

/// File in which the writer process records a number before it writes the number to the store. The content of a file
/// outlives a killed process without a flush.
fn attempt_file(folder: &Path) -> std::path::PathBuf {
    folder.join("attempt")
}

#[derive(Debug, PartialEq, Eq)]
struct StoreSnapshot {
    transaction: [Option<u64>; 2],
    script: [Option<u64>; 2],
    log: Vec<u64>,
}

async fn read_snapshot(engine: &EmbeddedEngine) -> StoreSnapshot {
    let mut connection = engine.connection();
    let [a, b, c, d] = redis::cmd("MGET")
        .arg(&["a", "b", "c", "d"])
        .query_async(&mut connection)
        .await
        .unwrap();
    let log = redis::cmd("LRANGE")
        .arg("log")
        .arg(0)
        .arg(-1)
        .query_async(&mut connection)
        .await
        .unwrap();
    StoreSnapshot {
        transaction: [a, b],
        script: [c, d],
        log,
    }
}

/// Runs in a child process: counts up as fast as it can, and prints after each flush which number was accepted before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writer_runs_until_it_is_killed() {
    let Some(folder) = child_folder() else { return };
    let engine = EmbeddedEngine::open(EngineOptions {
        data_folder: Some(folder.clone()),
        flush_interval: Duration::from_millis(20),
        ..EngineOptions::default()
    })
    .unwrap();
    println!("clean {}", engine.previous_run_was_clean());
    let mut next = read_snapshot(&engine).await.transaction[0].unwrap_or(0) + 1;
    let accepted = Arc::new(AtomicU64::new(next - 1));
    let mut flushed = engine.flush_count();
    let accepted_shared = accepted.clone();
    tokio::spawn(async move {
        while flushed.changed().await.is_ok() {
            // The order of the two reads matters: the number was accepted when at most this many flushes were complete.
            let accepted = accepted_shared.load(Ordering::SeqCst);
            println!("flush {} {accepted}", *flushed.borrow_and_update());
        }
    });
    let attempt = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(attempt_file(&folder))
        .unwrap();
    let script = redis::Script::new(
        "redis.call('SET', KEYS[1], ARGV[1]) redis.call('SET', KEYS[2], ARGV[1])",
    );
    let mut connection = engine.connection();
    loop {
        attempt.write_all_at(&next.to_le_bytes(), 0).unwrap();
        let mut both = redis::pipe();
        both.atomic()
            .set("a", next)
            .ignore()
            .rpush("log", next)
            .ignore()
            .ltrim("log", -20, -1)
            .ignore();
        let _: () = both
            .set("b", next)
            .ignore()
            .query_async(&mut connection)
            .await
            .unwrap();
        let _: () = script
            .key("c")
            .key("d")
            .arg(next)
            .invoke_async(&mut connection)
            .await
            .unwrap();
        accepted.store(next, Ordering::SeqCst);
        next += 1;
        if next % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
}

struct WriterProcess {
    process: Child,
    lines: Box<dyn Iterator<Item = String>>,
}

impl WriterProcess {
    fn start(folder: &Path) -> Self {
        let mut process = child(WRITER, folder, &[])
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self {
            process,
            lines: Box::new(output.lines().map_while(Result::ok)),
        }
    }

    fn line(&mut self, word: &str) -> Vec<String> {
        for line in self.lines.by_ref() {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            // The test runner's own words may precede the first line.
            if let Some(at) = words.iter().position(|found| found == word) {
                return words[at + 1..].to_vec();
            }
        }
        panic!("the writer ended by itself");
    }

    fn flush(&mut self) -> (u64, u64) {
        let line = self.line("flush");
        (line[0].parse().unwrap(), line[1].parse().unwrap())
    }

    fn was_clean(&mut self) -> bool {
        self.line("clean")[0] == "true"
    }
}

impl Drop for WriterProcess {
    fn drop(&mut self) {
        // `kill` sends SIGKILL.
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn check(seen: &StoreSnapshot, flushes: &[(u64, u64)], attempted: u64) {
    let [a, b] = seen.transaction.map(|n| n.unwrap_or(0));
    let [c, d] = seen.script.map(|n| n.unwrap_or(0));
    assert!(a == b && c == d, "half a transaction or script: {seen:?}");
    assert!(a == c || a == c + 1, "a state that never existed: {seen:?}");
    let log: Vec<u64> = (a.saturating_sub(19).max(1)..=a).collect();
    assert_eq!(seen.log, log, "a state that never existed");
    assert!(a <= attempted, "{a} of {attempted}");
    // A number that was accepted when `count` flushes were complete is on disk after two more flushes: the first of
    // them may have begun before the number was accepted.
    let complete = flushes.last().map_or(0, |(count, _)| *count);
    let durable = flushes
        .iter()
        .filter(|(count, _)| count + 2 <= complete)
        .map(|(_, n)| *n)
        .max();
    assert!(
        durable.is_none_or(|durable| durable <= c),
        "{durable:?} was durable, {seen:?} was loaded"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_kills_lose_at_most_one_flush_interval_and_no_partial_batch() {
    let folder = TempDir::new().unwrap();
    open(folder.path()).close().await;
    let mut was_closed = true;
    let mut last = 0;
    for round in 0..KILL_ROUNDS {
        let mut writer = WriterProcess::start(folder.path());
        assert_eq!(writer.was_clean(), was_closed, "round {round}");
        let flushes: Vec<_> = (0..1 + round * 7 % 9).map(|_| writer.flush()).collect();
        drop(writer);
        let attempt = fs::read(attempt_file(folder.path())).unwrap();
        let attempted = u64::from_le_bytes(attempt.try_into().unwrap());
        // In every third round the store is not closed, so the next writer process finds the state that the killed one
        // left.
        was_closed = round % 3 != 0;
        let seen = if was_closed {
            let engine = open(folder.path());
            assert!(!engine.previous_run_was_clean());
            let seen = read_snapshot(&engine).await;
            engine.close().await;
            seen
        } else {
            read_snapshot(&EmbeddedEngine::open_read_only(folder.path()).unwrap()).await
        };
        check(&seen, &flushes, attempted);
        assert!(
            seen.transaction[0] > Some(last),
            "round {round} wrote nothing"
        );
        last = seen.transaction[0].unwrap_or(0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_is_locked_until_its_process_ends_in_any_way() {
    let folder = TempDir::new().unwrap();
    let mut writer = WriterProcess::start(folder.path());
    writer.flush();
    assert!(matches!(
        open_error(folder.path()),
        EngineOpenError::Locked { .. }
    ));
    writer.flush();
    drop(writer);
    assert!(!open(folder.path()).previous_run_was_clean());
}
