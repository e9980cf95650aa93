//! How an engine is opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};

/// Options to open an engine. The default keeps all data in memory.
#[derive(Clone)]
pub struct EngineOptions {
    /// Folder of the SQLite file. Default: none, and the data is lost when the engine ends.
    pub data_folder: Option<PathBuf>,
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
    /// Longest time that a writer waits for a flush. Then the disk counts as hanging, and writes are rejected until the
    /// flush ends. Default: 5 seconds.
    pub max_flush_wait: Duration,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            data_folder: None,
            clock: Arc::new(SystemClock),
            strict: false,
            flush_interval: Duration::from_secs(1),
            max_queued_messages: 1_024,
            max_unflushed_bytes: 64 * 1024 * 1024,
            max_flush_wait: Duration::from_secs(5),
        }
    }
}
