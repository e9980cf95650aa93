//! `EmbeddedEngine`: the database and the script engine behind one mutex, and the background thread.
//!
//! Invariants:
//! 1. `EngineShared::lock` returns the state between two commands. Before it returns, it sets the time and the write
//!    permission of the command that is about to run.
//! 2. `begin_shutdown` closes the write gate while it holds the mutex. Every write was therefore either accepted
//!    before, and is part of the last flush, or is rejected.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::background::{self, BackgroundThread, FlushMetrics};
use crate::clock::{Clock, SystemClock};
use crate::connection::EmbeddedConnection;
use crate::control::BackgroundControl;
use crate::core::EngineState;
use crate::db::Db;
use crate::error::{CommandError, EngineOpenError};
use crate::gate::WriteGate;
use crate::persist::{self, StoreWriter};
use crate::pubsub::{EmbeddedSubscriber, PubSubRegistry};
use crate::script::ScriptEngine;

const STORE_CLOSED: CommandError =
    CommandError::from_static("ERR the store is closed and accepts no more writes");
const STORE_READ_ONLY: CommandError =
    CommandError::from_static("READONLY the store was opened read-only");

/// How an engine is opened. The default keeps all data in memory.
#[derive(Clone)]
pub struct EngineOptions {
    /// Folder of the SQLite file. Default: none, and the data is lost when the engine ends.
    pub path: Option<PathBuf>,
    /// Source of the time that expiry uses. Default: [`SystemClock`].
    pub clock: Arc<dyn Clock>,
    /// Strict mode rejects scripts that use undeclared keys or keys of two hash slots, and all commands and options
    /// newer than Redis 6.2. Default: off.
    pub strict: bool,
    /// Time between two flushes to disk. A killed process loses at most about this much. Default: 1 second.
    pub flush_interval: Duration,
    /// Messages that may wait for one subscriber. If the queue is full, the engine drops messages and the subscriber
    /// receives `Lagged`. Default: 1,024.
    pub max_queued_messages: usize,
    /// Approximate bytes of unflushed changes above which the engine flushes at once and writers wait until that flush
    /// begins. Default: 64 MiB.
    pub max_unflushed_bytes: usize,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            path: None,
            clock: Arc::new(SystemClock),
            strict: false,
            flush_interval: Duration::from_secs(1),
            max_queued_messages: 1_024,
            max_unflushed_bytes: 64 * 1024 * 1024,
        }
    }
}

/// An in-process Redis. Clones share the database. Dropping the last clone flushes all changes and closes the engine.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<EngineShared>,
    _background: Arc<BackgroundThread>,
}

/// State that commands and the background thread share.
pub(crate) struct EngineShared {
    pub state: Mutex<EngineState>,
    pub write_gate: WriteGate,
    pub background: BackgroundControl,
    pub flush_metrics: FlushMetrics,
    pub options: EngineOptions,
    pubsub: PubSubRegistry,
    run_id: String,
    clean_start: bool,
}

/// Accepted changes could not be written to disk. They stay in memory, and the next flush retries them.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "the data folder is full or not writable ({reason}); changes stay in memory and the next flush retries them"
)]
pub struct FlushError {
    /// Why the flush failed.
    pub reason: Arc<str>,
}

impl Engine {
    /// Opens an engine. With a data folder, the engine locks the folder and loads all data in it.
    pub fn open(options: EngineOptions) -> Result<Self, EngineOpenError> {
        let run_id = random_run_id();
        let mut db = new_db(&options);
        let opened = match &options.path {
            Some(folder) => Some(persist::open(folder, &run_id, &mut db)?),
            None => None,
        };
        let clean_start = opened
            .as_ref()
            .is_none_or(|opened| opened.previous_run_was_clean);
        Self::start(
            EngineShared::new(db, options, run_id, clean_start),
            opened.map(|opened| opened.writer),
        )
    }

    /// Loads the last flushed state of a folder and rejects writes. Another process may have the folder open and write
    /// to it.
    pub fn open_read_only(folder: impl AsRef<Path>) -> Result<Self, EngineOpenError> {
        let options = EngineOptions {
            path: Some(folder.as_ref().to_owned()),
            ..EngineOptions::default()
        };
        let mut db = new_db(&options);
        persist::load_read_only(folder.as_ref(), &mut db)?;
        let shared = EngineShared::new(db, options, random_run_id(), true);
        shared.write_gate.close(STORE_READ_ONLY);
        Self::start(shared, None)
    }

    fn start(shared: EngineShared, writer: Option<StoreWriter>) -> Result<Self, EngineOpenError> {
        let shared = Arc::new(shared);
        let path = shared.options.path.clone().unwrap_or_default();
        let life = BackgroundThread::start(shared.clone(), writer)
            .map_err(|source| EngineOpenError::Io { path, source })?;
        Ok(Self {
            shared,
            _background: Arc::new(life),
        })
    }

    /// Creates a connection for the redis crate's commands.
    pub fn connection(&self) -> EmbeddedConnection {
        EmbeddedConnection::new(self.clone())
    }

    /// Creates a subscriber without subscriptions.
    pub fn subscriber(&self) -> EmbeddedSubscriber {
        self.shared
            .pubsub
            .new_subscriber(self.shared.options.max_queued_messages)
    }

    /// Whether the previous run flushed all changes that it had accepted. False after a kill.
    pub fn previous_run_was_clean(&self) -> bool {
        self.shared.clean_start
    }

    /// Id of this run: 40 hexadecimal digits, different after each start.
    pub fn run_id(&self) -> &str {
        &self.shared.run_id
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
        self.shared.background.flush_count()
    }

    /// Rejects further writes, flushes all changes, marks the file as cleanly closed and releases the folder. Reads
    /// still work. Closing a second time has no effect.
    pub async fn close(&self) {
        self.shared.begin_shutdown();
        self.shared.background.wait_until_stopped().await;
    }

    /// Deletes all expired keys now. The background thread does the same ten times per second.
    pub fn sweep(&self) {
        background::run_expire_cycle(&self.shared, None);
    }

    /// Whether the engine has a data folder.
    pub fn is_persistent(&self) -> bool {
        self.shared.options.path.is_some()
    }

    /// Number of keys, including expired keys that are not deleted yet.
    pub fn keys(&self) -> usize {
        self.lock().db.keys().len()
    }

    /// Duration of the last flush.
    pub fn last_flush(&self) -> Duration {
        self.shared.flush_metrics.last_flush()
    }

    /// Approximate bytes of changes that are not on disk yet.
    pub fn unflushed_bytes(&self) -> usize {
        self.lock().db.journal.bytes() + self.shared.flush_metrics.bytes_in_flight()
    }

    /// Locks the state for a command that starts now.
    pub(crate) fn lock(&self) -> MutexGuard<'_, EngineState> {
        self.shared.lock()
    }

    /// Whether writers have to wait for a flush.
    pub(crate) fn has_backpressure(&self) -> bool {
        self.shared.write_gate.has_backpressure()
    }

    /// Waits while there is backpressure, so that unflushed changes cannot fill the memory.
    pub(crate) async fn wait_for_write_capacity(&self) {
        self.shared.write_gate.capacity_available().await;
    }
}

impl EngineShared {
    fn new(mut db: Db, options: EngineOptions, run_id: String, clean_start: bool) -> Self {
        db.run_id.clone_from(&run_id);
        let pubsub = db.pubsub.clone();
        Self {
            state: Mutex::new(EngineState {
                db,
                scripts: ScriptEngine::new(),
            }),
            write_gate: WriteGate::default(),
            background: BackgroundControl::default(),
            flush_metrics: FlushMetrics::default(),
            options,
            pubsub,
            run_id,
            clean_start,
        }
    }

    /// Locks the state and sets the time and the write permission of the command that starts now. Starts backpressure
    /// if the journal has grown too large.
    pub fn lock(&self) -> MutexGuard<'_, EngineState> {
        let mut core = self.state.lock();
        if core.db.journal.bytes() > self.options.max_unflushed_bytes && self.write_gate.crowd() {
            self.background.request_flush();
        }
        core.db
            .begin_command(self.options.clock.now_ms(), self.write_gate.refusal());
        core
    }

    /// Rejects writes from now on and asks the background thread to flush and end.
    pub fn begin_shutdown(&self) {
        // The gate closes under the mutex: every write was either accepted before, and is flushed, or is rejected.
        let core = self.state.lock();
        self.write_gate.close(STORE_CLOSED);
        drop(core);
        self.background.stop();
    }
}

fn new_db(options: &EngineOptions) -> Db {
    let now = options.clock.now_ms();
    let mut db = Db::new(options.strict, now, PubSubRegistry::default());
    db.begin_command(now, None);
    db
}

/// 40 random hexadecimal digits. The standard library seeds `RandomState` from the system's randomness.
fn random_run_id() -> String {
    let id: String = (0..3u8)
        .map(|part| format!("{:016x}", RandomState::new().hash_one(part)))
        .collect();
    id[..40].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_blocking_writes_are_declined_while_the_journal_is_full() {
        let engine = Engine::open(EngineOptions::default()).unwrap();
        let connection = engine.connection();
        let set = redis::cmd("SET").arg("key").arg("value").take();
        let get = redis::cmd("GET").arg("key").take();
        assert!(engine.shared.write_gate.crowd());
        assert!(connection.try_execute(&set).is_none());
        assert_eq!(connection.try_execute(&get), Some(Ok(redis::Value::Nil)));
        engine.shared.write_gate.end_backpressure();
        assert_eq!(connection.try_execute(&set), Some(Ok(redis::Value::Okay)));
    }
}
