//! `EmbeddedEngine`: the database and the script engine behind one mutex, and the background thread.
//!
//! Invariants:
//! 1. `EngineShared::lock` returns the state between two commands. Before it returns, it sets the time and the write
//!    permission of the command that is about to run.
//! 2. `begin_shutdown` closes the write gate while it holds the mutex. Every write was therefore either accepted
//!    before, and is part of the last flush, or is rejected.

mod background;
mod background_control;
pub mod connection;
mod flush_error;
pub mod lazyfree;
mod options;
pub mod state;
mod write_gate;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use redis::RedisResult;
use tokio::sync::watch;

use self::background::BackgroundThread;
use self::background_control::{BackgroundControl, BackgroundRequest};
use self::connection::EmbeddedConnection;
use self::state::EngineState;
use self::write_gate::{DISK_HANGS, WriteGate};
use crate::db::Db;
use crate::error::{CommandError, EngineOpenError};
use crate::persistence::{self, StoreWriter};
use crate::pubsub::{EmbeddedSubscriber, PubSubRegistry};
use crate::scripting::ScriptEngine;

pub use self::flush_error::FlushError;
pub use self::options::EngineOptions;

const STORE_CLOSED: CommandError =
    CommandError::from_static("ERR the store is closed and accepts no more writes");
const STORE_READ_ONLY: CommandError =
    CommandError::from_static("READONLY the store was opened read-only");

/// An in-process Redis. Clones share the database. Dropping the last clone flushes all changes and closes the engine.
#[derive(Clone)]
pub struct EmbeddedEngine {
    shared: Arc<EngineShared>,
    _background: Arc<BackgroundThread>,
}

/// State that commands and the background thread share.
pub(crate) struct EngineShared {
    pub state: Mutex<EngineState>,
    pub write_gate: WriteGate,
    pub background: BackgroundControl,
    /// Approximate bytes that were taken from the journal and are not on disk yet.
    pub bytes_in_flight: AtomicUsize,
    /// Start of the running flush.
    pub flush_started_at: Mutex<Option<Instant>>,
    /// Whether the file says that its last run was not closed cleanly. No change may be accepted before, because a crash
    /// could then lose it without a trace.
    pub file_says_unclean: AtomicBool,
    pub options: EngineOptions,
    previous_run_was_clean: bool,
}

impl EmbeddedEngine {
    /// Opens an engine. With a data folder, the engine locks the folder and loads all data in it.
    pub fn open(options: EngineOptions) -> Result<Self, EngineOpenError> {
        let mut db = new_db(&options);
        let (writer, previous_run_was_clean) = match &options.data_folder {
            Some(folder) => {
                let (writer, was_clean) = persistence::open(folder, &mut db)?;
                (Some(writer), was_clean)
            }
            None => (None, true),
        };
        Self::start(db, options, writer, previous_run_was_clean)
    }

    /// Loads the last flushed state of a folder and rejects writes. Another process may have the folder open and write
    /// to it.
    pub fn open_read_only(folder: impl AsRef<Path>) -> Result<Self, EngineOpenError> {
        let options = EngineOptions {
            data_folder: Some(folder.as_ref().to_owned()),
            ..EngineOptions::default()
        };
        let mut db = new_db(&options);
        persistence::load_read_only(folder.as_ref(), &mut db)?;
        let engine = Self::start(db, options, None, true)?;
        engine.shared.write_gate.close(STORE_READ_ONLY);
        Ok(engine)
    }

    fn start(
        db: Db,
        options: EngineOptions,
        writer: Option<StoreWriter>,
        previous_run_was_clean: bool,
    ) -> Result<Self, EngineOpenError> {
        let scripts = ScriptEngine::new();
        let (background, requests) = BackgroundControl::new();
        let path = options.data_folder.clone().unwrap_or_default();
        let shared = Arc::new(EngineShared {
            state: Mutex::new(EngineState { db, scripts }),
            write_gate: WriteGate::default(),
            background,
            bytes_in_flight: AtomicUsize::new(0),
            flush_started_at: Mutex::new(None),
            file_says_unclean: AtomicBool::new(!previous_run_was_clean),
            options,
            previous_run_was_clean,
        });
        let background = BackgroundThread::start(shared.clone(), requests, writer)
            .map_err(|source| EngineOpenError::Io { path, source })?;
        Ok(Self {
            shared,
            _background: Arc::new(background),
        })
    }

    /// Creates a connection for the redis crate's commands.
    pub fn connection(&self) -> EmbeddedConnection {
        EmbeddedConnection::new(self.clone())
    }

    /// Creates a subscriber without subscriptions.
    pub fn subscriber(&self) -> EmbeddedSubscriber {
        let max_messages = self.shared.options.max_queued_messages;
        self.lock().db.pubsub.new_subscriber(max_messages)
    }

    /// Whether the previous run flushed all changes that it had accepted. False after a kill.
    pub fn previous_run_was_clean(&self) -> bool {
        self.shared.previous_run_was_clean
    }

    /// Id of this run: 40 hexadecimal digits, different after each start.
    pub fn run_id(&self) -> String {
        self.lock().db.run_id.clone()
    }

    /// Flushes now: every change that was executed before the call is on disk when the call returns `Ok`. Does nothing
    /// without a data folder.
    pub async fn flush(&self) -> Result<(), FlushError> {
        if !self.is_persistent() {
            return Ok(());
        }
        self.shared
            .background
            .flush()
            .await
            .map_err(|reason| FlushError { reason })
    }

    /// Watch of the number of completed flushes.
    pub fn flush_count(&self) -> watch::Receiver<u64> {
        self.shared.background.flush_count.subscribe()
    }

    /// Rejects further writes, flushes all changes, marks the file as cleanly closed and releases the folder. Reads
    /// still work. Closing a second time has no effect.
    pub async fn close(&self) {
        self.shared.begin_shutdown();
        // The background thread has logged a failure of the last flush.
        let _ = self.shared.background.wait_until_stopped().await;
    }

    /// Returns the error that a write gets at the moment, or that it would get if the running flush does not end.
    pub fn check_writable(&self) -> RedisResult<()> {
        if let Some(error) = self.shared.write_gate.write_error(|| false) {
            return Err(error.into());
        }
        let started_at = *self.shared.flush_started_at.lock();
        match started_at {
            Some(at) if at.elapsed() > self.shared.options.max_flush_wait => Err(DISK_HANGS.into()),
            _ => Ok(()),
        }
    }

    /// Whether the engine has a data folder.
    pub fn is_persistent(&self) -> bool {
        self.shared.options.data_folder.is_some()
    }

    /// Number of keys, including expired keys that are not deleted yet.
    pub fn key_count(&self) -> usize {
        self.lock().db.dict().len()
    }

    /// Approximate bytes of changes that are not on disk yet.
    pub fn unflushed_bytes(&self) -> usize {
        self.lock().db.journal.bytes() + self.shared.bytes_in_flight.load(Ordering::Relaxed)
    }

    /// Locks the state for a command that starts now.
    pub(crate) fn lock(&self) -> MutexGuard<'_, EngineState> {
        self.shared.lock(false)
    }

    /// As [`lock`](Self::lock), for a command whose changes need not reach the disk soon.
    pub(crate) fn lock_for_deferrable_writes(&self) -> MutexGuard<'_, EngineState> {
        self.shared.lock(true)
    }

    /// Whether writers have to wait for a flush.
    pub(crate) fn has_backpressure(&self) -> bool {
        self.shared.write_gate.has_backpressure()
    }

    /// Waits while there is backpressure, so that unflushed changes cannot fill the memory. If the disk hangs, the wait
    /// ends, and writes are rejected.
    pub(crate) async fn wait_for_write_capacity(&self) {
        let limit = self.shared.options.max_flush_wait;
        self.shared.write_gate.wait_for_capacity(limit).await;
    }
}

impl EngineShared {
    /// Locks the state and sets the time and the write permission of the command that starts now. Starts backpressure
    /// if the journal has grown too large.
    ///
    /// While the disk fails, a command whose changes need not reach the disk soon may still write: its few changes stay in
    /// the journal, which is bounded.
    pub fn lock(&self, defers_writes: bool) -> MutexGuard<'_, EngineState> {
        let mut state = self.state.lock();
        let unflushed = state.db.journal.bytes();
        let max_unflushed = self.options.max_unflushed_bytes;
        if unflushed > max_unflushed && self.write_gate.start_backpressure() {
            self.background.request(BackgroundRequest::Flush(None));
        }
        let write_error = self.write_gate.write_error(|| {
            let in_flight = self.bytes_in_flight.load(Ordering::Relaxed);
            defers_writes
                && unflushed + in_flight <= max_unflushed
                && self.file_says_unclean.load(Ordering::Relaxed)
        });
        let now = self.options.clock.now_ms();
        state.db.begin_command(now, write_error);
        state
    }

    /// Rejects writes from now on and asks the background thread to flush and end.
    pub fn begin_shutdown(&self) {
        // The gate closes under the mutex: every write was either accepted before, and is flushed, or is rejected.
        let state = self.state.lock();
        self.write_gate.close(STORE_CLOSED);
        drop(state);
        self.background.request(BackgroundRequest::Stop);
    }
}

fn new_db(options: &EngineOptions) -> Db {
    let mut db = Db::new(options.strict, PubSubRegistry::default());
    db.run_id = random_run_id();
    db.begin_command(options.clock.now_ms(), None);
    db
}

/// 40 random hexadecimal digits.
fn random_run_id() -> String {
    let (high, low): (u128, u32) = (rand::random(), rand::random());
    format!("{high:032x}{low:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_blocking_writes_are_declined_while_the_journal_is_full() {
        let engine = EmbeddedEngine::open(EngineOptions::default()).unwrap();
        let connection = engine.connection();
        let set = redis::cmd("SET").arg("key").arg("value").take();
        let get = redis::cmd("GET").arg("key").take();
        assert!(engine.shared.write_gate.start_backpressure());
        assert!(connection.try_execute(&set).is_none());
        assert_eq!(connection.try_execute(&get), Some(Ok(redis::Value::Nil)));
        engine.shared.write_gate.end_backpressure();
        assert_eq!(connection.try_execute(&set), Some(Ok(redis::Value::Okay)));
    }
}
