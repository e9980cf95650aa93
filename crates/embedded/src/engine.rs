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

use crate::background::{self, Figures, Life};
use crate::clock::{Clock, SystemClock};
use crate::connection::Connection;
use crate::control::Control;
use crate::core::Core;
use crate::db::Db;
use crate::error::{Error, OpenError};
use crate::gate::Gate;
use crate::persist::{self, Writer};
use crate::pubsub::{Hub, Subscriber};
use crate::script::Scripts;

const CLOSED: Error = Error::fixed("ERR the store is closed and takes no more writes");
const READ_ONLY: Error = Error::fixed("READONLY the store was opened for reading only");

/// How an engine is opened. The default keeps everything in memory.
#[derive(Clone)]
pub struct Options {
    /// The folder to keep the data in; nothing is kept without one.
    pub path: Option<PathBuf>,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// Refuse scripts that touch undeclared keys or keys of two hash slots, and everything newer than Redis 6.2.
    pub strict: bool,
    /// How often changes are written to disk: at most this much is lost by a kill.
    pub tick: Duration,
    /// How many messages wait for a subscriber before it is told that it lags.
    pub subscriber_queue: usize,
    /// When about this many bytes of changes wait to be written, they are written at once and callers wait meanwhile.
    pub max_unwritten: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            path: None,
            clock: Arc::new(SystemClock),
            strict: false,
            tick: Duration::from_secs(1),
            subscriber_queue: 1_024,
            max_unwritten: 64 * 1024 * 1024,
        }
    }
}

/// An in-process Redis. Clones share it; the last one to go ends it, writing what is unwritten.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    _life: Arc<Life>,
}

/// What commands and the background thread share.
pub(crate) struct Shared {
    pub core: Mutex<Core>,
    pub gate: Gate,
    pub control: Control,
    pub figures: Figures,
    pub options: Options,
    hub: Hub,
    run_id: String,
    clean_start: bool,
}

/// Some accepted changes could not be written to disk. They are kept and tried again.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "the data folder is full or cannot be written ({reason}); changes are kept in memory and tried again"
)]
pub struct FlushError {
    /// What stopped it.
    pub reason: Arc<str>,
}

impl Engine {
    /// Opens an engine. With a folder, that is locked and everything in it is loaded.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let run_id = random_id();
        let mut db = new_db(&options);
        let opened = match &options.path {
            Some(folder) => Some(persist::open(folder, &run_id, &mut db)?),
            None => None,
        };
        let clean_start = opened.as_ref().is_none_or(|opened| opened.clean);
        Self::start(
            Shared::new(db, options, run_id, clean_start),
            opened.map(|opened| opened.writer),
        )
    }

    /// Loads what was last written to a folder, whether or not a process is writing to it, and refuses writes.
    pub fn open_read_only(folder: impl AsRef<Path>) -> Result<Self, OpenError> {
        let options = Options {
            path: Some(folder.as_ref().to_owned()),
            ..Options::default()
        };
        let mut db = new_db(&options);
        persist::read(folder.as_ref(), &mut db)?;
        let shared = Shared::new(db, options, random_id(), true);
        shared.gate.shut(READ_ONLY);
        Self::start(shared, None)
    }

    fn start(shared: Shared, writer: Option<Writer>) -> Result<Self, OpenError> {
        let shared = Arc::new(shared);
        let path = shared.options.path.clone().unwrap_or_default();
        let life =
            Life::start(shared.clone(), writer).map_err(|source| OpenError::Io { path, source })?;
        Ok(Self {
            shared,
            _life: Arc::new(life),
        })
    }

    /// A connection for the redis crate's commands.
    pub fn connection(&self) -> Connection {
        Connection::new(self.clone())
    }

    /// A subscriber without subscriptions.
    pub fn subscriber(&self) -> Subscriber {
        self.shared
            .hub
            .subscriber(self.shared.options.subscriber_queue)
    }

    /// Whether the run before this one wrote everything it had accepted. False after a kill.
    pub fn clean_start(&self) -> bool {
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
            .control
            .flush()
            .await
            .map_err(|reason| FlushError { reason })
    }

    /// The number of batches that were made durable, to be told of each.
    pub fn flushed(&self) -> watch::Receiver<u64> {
        self.shared.control.flushes()
    }

    /// Refuses further writes, makes everything durable, notes that nothing is missing, and gives up the folder.
    /// Reads go on. Closing again is harmless.
    pub async fn close(&self) {
        self.shared.stop();
        self.shared.control.ended().await;
    }

    /// Drops all keys that are over, as the engine does by itself ten times a second.
    pub fn sweep(&self) {
        background::sweep(&self.shared, None);
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
        self.shared.figures.last_flush()
    }

    /// About how many bytes of changes are not durable yet.
    pub fn unwritten_bytes(&self) -> usize {
        self.lock().db.journal.bytes() + self.shared.figures.in_flight()
    }

    /// The core, at the moment the lock was got.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.shared.lock()
    }

    /// Whether so much is unwritten that writers have to wait.
    pub(crate) fn is_crowded(&self) -> bool {
        self.shared.gate.is_crowded()
    }

    /// Waits while so much is unwritten that memory would grow without bound.
    pub(crate) async fn room_to_write(&self) {
        self.shared.gate.room().await;
    }
}

impl Shared {
    fn new(mut db: Db, options: Options, run_id: String, clean_start: bool) -> Self {
        db.run_id.clone_from(&run_id);
        let hub = db.hub.clone();
        Self {
            core: Mutex::new(Core {
                db,
                scripts: Scripts::new(),
            }),
            gate: Gate::default(),
            control: Control::default(),
            figures: Figures::default(),
            options,
            hub,
            run_id,
            clean_start,
        }
    }

    /// The core, ready for a command that begins now.
    pub fn lock(&self) -> MutexGuard<'_, Core> {
        let mut core = self.core.lock();
        if core.db.journal.bytes() > self.options.max_unwritten && self.gate.crowd() {
            self.control.hurry();
        }
        core.db
            .begin(self.options.clock.now_ms(), self.gate.refusal());
        core
    }

    /// Begins the end: from now on no write is accepted, and the background thread finishes.
    pub fn stop(&self) {
        // Under the lock, so that every write was either accepted before and is flushed, or is refused.
        let core = self.core.lock();
        self.gate.shut(CLOSED);
        drop(core);
        self.control.stop();
    }
}

fn new_db(options: &Options) -> Db {
    let now = options.clock.now_ms();
    let mut db = Db::new(options.strict, now, Hub::default());
    db.begin(now, None);
    db
}

/// 40 random hexadecimal digits. The standard library seeds each of these hashers from the system's randomness.
fn random_id() -> String {
    let id: String = (0..3u8)
        .map(|part| format!("{:016x}", RandomState::new().hash_one(part)))
        .collect();
    id[..40].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_wait_writes_nothing_while_there_is_no_room() {
        let engine = Engine::open(Options::default()).unwrap();
        let connection = engine.connection();
        let set = redis::cmd("SET").arg("key").arg("value").take();
        let get = redis::cmd("GET").arg("key").take();
        assert!(engine.shared.gate.crowd());
        assert!(connection.at_once(&set).is_none());
        assert_eq!(connection.at_once(&get), Some(Ok(redis::Value::Nil)));
        engine.shared.gate.relieve();
        assert_eq!(connection.at_once(&set), Some(Ok(redis::Value::Okay)));
    }
}
