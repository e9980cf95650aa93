//! The engine: a core behind a lock, and what runs beside it.
//!
//! Always true:
//! 1. Whoever gets the lock sees the state between two commands, and the time and the permission to write of the
//!    command that begins.
//! 2. Once `close` has begun no write is accepted, so what is written last is everything.

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

/// How an engine is opened. The default keeps everything in memory.
#[derive(Clone)]
pub struct EngineOptions {
    /// The folder to keep the data in; nothing is kept without one.
    pub path: Option<PathBuf>,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// Refuse scripts that touch undeclared keys or keys of two hash slots, and everything newer than Redis 6.2.
    pub strict: bool,
    /// How often changes are written to disk: at most this much is lost by a kill.
    pub flush_interval: Duration,
    /// How many messages wait for a subscriber before it is told that it lags.
    pub max_queued_messages: usize,
    /// When about this many bytes of changes wait to be written, they are written at once and callers wait meanwhile.
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

/// An in-process Redis. Clones share it; the last one to go ends it, writing what is unwritten.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<EngineShared>,
    _background: Arc<BackgroundThread>,
}

/// What commands and the background thread share.
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

/// Some accepted changes could not be written to disk. They are kept and tried again.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "the data folder is full or not writable ({reason}); changes stay in memory and the next flush retries them"
)]
pub struct FlushError {
    /// What stopped it.
    pub reason: Arc<str>,
}

impl Engine {
    /// Opens an engine. With a folder, that is locked and everything in it is loaded.
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

    /// Loads what was last written to a folder, whether or not a process is writing to it, and refuses writes.
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

    /// A connection for the redis crate's commands.
    pub fn connection(&self) -> EmbeddedConnection {
        EmbeddedConnection::new(self.clone())
    }

    /// A subscriber without subscriptions.
    pub fn subscriber(&self) -> EmbeddedSubscriber {
        self.shared
            .pubsub
            .new_subscriber(self.shared.options.max_queued_messages)
    }

    /// Whether the run before this one wrote everything it had accepted. False after a kill.
    pub fn previous_run_was_clean(&self) -> bool {
        self.shared.clean_start
    }

    /// What this run is called: 40 hexadecimal digits, other ones after each opening.
    pub fn run_id(&self) -> &str {
        &self.shared.run_id
    }

    /// Makes everything durable that was executed before the call.
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

    /// The number of batches that were made durable, to be told of each.
    pub fn flush_count(&self) -> watch::Receiver<u64> {
        self.shared.background.flush_count()
    }

    /// Refuses further writes, makes everything durable, notes that nothing is missing, and gives up the folder.
    /// Reads go on. Closing again is harmless.
    pub async fn close(&self) {
        self.shared.begin_shutdown();
        self.shared.background.wait_until_stopped().await;
    }

    /// Drops all keys that are over, as the engine does by itself ten times a second.
    pub fn sweep(&self) {
        background::run_expire_cycle(&self.shared, None);
    }

    /// Whether what is written to this engine is kept on disk.
    pub fn is_persistent(&self) -> bool {
        self.shared.options.path.is_some()
    }

    /// The number of keys.
    pub fn keys(&self) -> usize {
        self.lock().db.keys().len()
    }

    /// How long it took to write the last batch.
    pub fn last_flush(&self) -> Duration {
        self.shared.flush_metrics.last_flush()
    }

    /// About how many bytes of changes are not durable yet.
    pub fn unflushed_bytes(&self) -> usize {
        self.lock().db.journal.bytes() + self.shared.flush_metrics.bytes_in_flight()
    }

    /// The core, at the moment the lock was got.
    pub(crate) fn lock(&self) -> MutexGuard<'_, EngineState> {
        self.shared.lock()
    }

    /// Whether so much is unwritten that writers have to wait.
    pub(crate) fn has_backpressure(&self) -> bool {
        self.shared.write_gate.has_backpressure()
    }

    /// Waits while so much is unwritten that memory would grow without bound.
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

    /// The core, ready for a command that begins now.
    pub fn lock(&self) -> MutexGuard<'_, EngineState> {
        let mut core = self.state.lock();
        if core.db.journal.bytes() > self.options.max_unflushed_bytes && self.write_gate.crowd() {
            self.background.request_flush();
        }
        core.db
            .begin_command(self.options.clock.now_ms(), self.write_gate.refusal());
        core
    }

    /// Begins the end: from now on no write is accepted, and the background thread finishes.
    pub fn begin_shutdown(&self) {
        // Under the lock, so that every write was either accepted before and is flushed, or is refused.
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

/// 40 random hexadecimal digits. The standard library seeds each of these hashers from the system's randomness.
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
