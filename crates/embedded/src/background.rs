//! The background thread of an engine: deletes expired keys and flushes changes to disk.
//!
//! Invariants:
//! 1. The thread holds the engine's mutex for at most `MAX_KEYS_PER_EXPIRE_STEP` keys at a time, and for one move of a
//!    vector per flush.
//! 2. A batch that could not be written is retried with every flush. Until a flush succeeds, writes are rejected, and
//!    the running process loses no accepted change.
//! 3. After a failed fsync the process exits, because the state on disk is unknown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use crate::engine::EngineShared;
use crate::error::CommandError;
use crate::persist::{FlushBatch, StoreWriter, is_failed_fsync};

/// Exit code of the process after a failed fsync (`EX_IOERR` of sysexits).
const FSYNC_FAILURE_EXIT_CODE: i32 = 74;
const MIN_FLUSH_INTERVAL: Duration = Duration::from_millis(1);
/// Long enough to mean "never", short enough for arithmetic with `Instant`.
const MAX_FLUSH_INTERVAL: Duration = Duration::from_secs(365 * 86_400);
const EXPIRE_CYCLE_INTERVAL: Duration = Duration::from_millis(100);
/// Longest duration of an expire cycle. A flush that is due waits at most this long.
const MAX_EXPIRE_CYCLE_DURATION: Duration = Duration::from_millis(25);
/// Keys checked per hold of the mutex.
const MAX_KEYS_PER_EXPIRE_STEP: usize = 200;

/// Counters about flushing.
#[derive(Debug, Default)]
pub(crate) struct FlushMetrics {
    last_flush_us: AtomicU64,
    in_flight: AtomicUsize,
}

impl FlushMetrics {
    /// Duration of the last flush.
    pub fn last_flush(&self) -> Duration {
        Duration::from_micros(self.last_flush_us.load(Ordering::Relaxed))
    }

    /// Approximate bytes that were taken from the journal and are not on disk yet.
    pub fn bytes_in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }
}

/// Stops and joins the background thread when the last engine handle is dropped.
pub(crate) struct BackgroundThread {
    shared: Arc<EngineShared>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundThread {
    /// Starts the thread.
    pub fn start(shared: Arc<EngineShared>, writer: Option<StoreWriter>) -> std::io::Result<Self> {
        let mut worker = BackgroundWorker {
            shared: shared.clone(),
            flusher: None,
        };
        if let Some(writer) = writer {
            worker.flusher = Some(JournalFlusher::new(writer, &shared));
        }
        let thread = std::thread::Builder::new()
            .name("parlor-store".into())
            .spawn(move || worker.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        self.shared.begin_shutdown();
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

struct BackgroundWorker {
    shared: Arc<EngineShared>,
    flusher: Option<JournalFlusher>,
}

impl BackgroundWorker {
    fn run(mut self) {
        let tick = self
            .shared
            .options
            .flush_interval
            .clamp(MIN_FLUSH_INTERVAL, MAX_FLUSH_INTERVAL);
        let (mut next_sweep, mut next_flush) = (Instant::now(), Instant::now() + tick);
        loop {
            let next = if self.flusher.is_some() {
                next_sweep.min(next_flush)
            } else {
                next_sweep
            };
            let wishes = self.shared.background.wait_for_request(next);
            if wishes.stop {
                break;
            }
            let now = Instant::now();
            if now >= next_sweep {
                let pause = if run_expire_cycle(&self.shared, Some(MAX_EXPIRE_CYCLE_DURATION)) {
                    Duration::ZERO
                } else {
                    EXPIRE_CYCLE_INTERVAL
                };
                next_sweep = now + pause;
            }
            if wishes.flush_now || now >= next_flush {
                next_flush = now + tick;
                let failure = self
                    .flusher
                    .as_mut()
                    .and_then(|flusher| flusher.flush(&self.shared));
                self.shared.background.answer(wishes.flush_number, failure);
            }
        }
    }
}

impl Drop for BackgroundWorker {
    /// Also runs if the thread panics, because callers wait for the results that it reports.
    fn drop(&mut self) {
        self.shared.begin_shutdown();
        let failure = self
            .flusher
            .take()
            .and_then(|flusher| flusher.close(&self.shared));
        self.shared.background.answer(u64::MAX, failure);
        self.shared.background.end();
    }
}

/// Deletes expired keys until none is left or the time limit is reached. Returns whether there may be more.
pub(crate) fn run_expire_cycle(shared: &EngineShared, round: Option<Duration>) -> bool {
    let started = Instant::now();
    loop {
        let mut core = shared.lock();
        let more = core.db.sweep(MAX_KEYS_PER_EXPIRE_STEP);
        // Commands that wait for the mutex run before the next step.
        MutexGuard::unlock_fair(core);
        if !more || round.is_some_and(|round| started.elapsed() >= round) {
            return more;
        }
    }
}

struct JournalFlusher {
    writer: StoreWriter,
    batch: FlushBatch,
    /// Whether the last WAL checkpoint failed. Only the first failure in a row is logged.
    checkpoint_failed: bool,
}

impl JournalFlusher {
    fn new(writer: StoreWriter, shared: &EngineShared) -> Self {
        if !writer.is_run_marked() {
            reject_writes(shared, "the start of this run could not be recorded");
        }
        Self {
            writer,
            batch: FlushBatch::default(),
            checkpoint_failed: false,
        }
    }

    /// Writes every change that was executed before the call to disk. Returns the reason if that failed.
    fn flush(&mut self, shared: &EngineShared) -> Option<Arc<str>> {
        let (bytes, effects) = {
            let journal = &mut shared.state.lock().db.journal;
            (journal.bytes(), journal.take())
        };
        shared.write_gate.end_backpressure();
        let started = Instant::now();
        self.batch.append(effects.into_iter().flatten(), bytes);
        if self.batch.is_empty() && self.writer.is_run_marked() {
            return None;
        }
        shared
            .flush_metrics
            .in_flight
            .store(self.batch.bytes(), Ordering::Relaxed);
        if let Err(error) = self.writer.write(&self.batch) {
            exit_on_fsync_failure(&error);
            let reason = error.to_string();
            reject_writes(shared, &reason);
            return Some(reason.into());
        }
        self.batch = FlushBatch::default();
        shared.flush_metrics.in_flight.store(0, Ordering::Relaxed);
        let took = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        shared
            .flush_metrics
            .last_flush_us
            .store(took, Ordering::Relaxed);
        if shared.write_gate.accept_writes() {
            tracing::info!("the data folder is writable again, writes are accepted");
        }
        shared.background.count_flush();
        self.checkpoint_if_due();
        None
    }

    fn checkpoint_if_due(&mut self) {
        match self.writer.checkpoint_if_due() {
            Ok(()) => self.checkpoint_failed = false,
            Err(error) => {
                exit_on_fsync_failure(&error);
                // The flushed changes are safe in the WAL. If the disk has no space for the WAL either, the next flush
                // fails and reports it.
                if !std::mem::replace(&mut self.checkpoint_failed, true) {
                    tracing::warn!(%error, "WAL checkpoint failed, the WAL file grows until a checkpoint succeeds");
                }
            }
        }
    }

    fn close(mut self, shared: &EngineShared) -> Option<Arc<str>> {
        let unwritten = self.flush(shared);
        if let Some(reason) = &unwritten {
            let bytes = self.batch.bytes();
            tracing::error!(%reason, bytes, "the store closes with changes that could not be written, they are lost");
            return unwritten;
        }
        if let Err(error) = self.writer.close() {
            exit_on_fsync_failure(&error);
            tracing::warn!(%error, "all changes are written, but the store could not be marked as cleanly closed");
        }
        None
    }
}

fn reject_writes(shared: &EngineShared, reason: &str) {
    let error = CommandError::new(format!(
        "MISCONF the data folder is full or not writable ({reason}); writes are rejected until it can be written again, \
         reads still work"
    ));
    if shared.write_gate.reject_writes(error) {
        tracing::error!(
            reason,
            "the data folder is full or not writable, writes are rejected until it can be written again"
        );
    }
}

fn exit_on_fsync_failure(error: &rusqlite::Error) {
    if is_failed_fsync(error) {
        tracing::error!(%error, "fsync of the store failed, the process exits");
        eprintln!(
            "fsync of the embedded store failed ({error}): the state on disk is unknown, so the process exits; \
             check the disk and restart, the store continues from its last complete flush"
        );
        std::process::exit(FSYNC_FAILURE_EXIT_CODE);
    }
}
