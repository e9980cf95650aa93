//! The background thread of an engine: deletes expired keys and flushes changes to disk.
//!
//! Invariants:
//! 1. The thread holds the engine's mutex for at most `MAX_KEYS_PER_EXPIRE_STEP` keys at a time, and for one move of a
//!    vector per flush.
//! 2. A batch that could not be written is retried with every flush. Until a flush succeeds, writes are rejected, and
//!    the running process loses no accepted change.
//! 3. After a failed fsync the process exits, because the state on disk is unknown.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use tokio::sync::oneshot;

use super::EngineShared;
use super::background_control::{BackgroundRequest, FlushResult};

use crate::error::CommandError;
use crate::persistence::{FlushBatch, StoreWriter, is_failed_fsync};

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

/// Stops and joins the background thread when the last engine handle is dropped.
pub(crate) struct BackgroundThread {
    shared: Arc<EngineShared>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundThread {
    pub fn start(
        shared: Arc<EngineShared>,
        requests: Receiver<BackgroundRequest>,
        writer: Option<StoreWriter>,
    ) -> std::io::Result<Self> {
        let mut worker = BackgroundWorker {
            flusher: writer.map(|writer| JournalFlusher::new(writer, &shared)),
            shared: shared.clone(),
            requests,
        };
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

type FlushSender = oneshot::Sender<FlushResult>;

struct BackgroundWorker {
    flusher: Option<JournalFlusher>,
    shared: Arc<EngineShared>,
    requests: Receiver<BackgroundRequest>,
}

impl BackgroundWorker {
    fn run(&mut self) {
        let interval = self.shared.options.flush_interval;
        let interval = interval.clamp(MIN_FLUSH_INTERVAL, MAX_FLUSH_INTERVAL);
        let (mut next_cycle, mut next_flush) = (Instant::now(), Instant::now() + interval);
        loop {
            let wake_at = match self.flusher {
                Some(_) => next_cycle.min(next_flush),
                None => next_cycle,
            };
            let Some(requests) = self.wait_for_requests(wake_at) else {
                return;
            };
            let now = Instant::now();
            if now >= next_cycle {
                let more = run_expire_cycle(&self.shared);
                next_cycle = if more {
                    now
                } else {
                    now + EXPIRE_CYCLE_INTERVAL
                };
            }
            if !requests.is_empty() || now >= next_flush {
                next_flush = now + interval;
                let flusher = self.flusher.as_mut();
                let result = flusher.map_or(Ok(()), |flusher| flusher.flush(&self.shared));
                for sender in requests.into_iter().flatten() {
                    // An error means that the caller no longer waits.
                    let _ = sender.send(result.clone());
                }
            }
        }
    }

    /// Sleeps until a request arrives or `time` is reached. Returns all flush requests, `None` if the thread has to end.
    fn wait_for_requests(&self, time: Instant) -> Option<Vec<Option<FlushSender>>> {
        let mut requests = Vec::new();
        let mut timeout = time.saturating_duration_since(Instant::now());
        loop {
            match self.requests.recv_timeout(timeout) {
                Ok(BackgroundRequest::Flush(sender)) => requests.push(sender),
                Ok(BackgroundRequest::Stop) | Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => return Some(requests),
            }
            timeout = Duration::ZERO;
        }
    }
}

impl Drop for BackgroundWorker {
    /// Also runs if the thread panics, because callers wait for the final result.
    fn drop(&mut self) {
        self.shared.begin_shutdown();
        let flusher = self.flusher.take();
        let result = flusher.map_or(Ok(()), |flusher| flusher.close(&self.shared));
        self.shared
            .background
            .final_result
            .send_replace(Some(result));
    }
}

/// Deletes expired keys for at most `MAX_EXPIRE_CYCLE_DURATION`. Returns whether there may be more.
fn run_expire_cycle(shared: &EngineShared) -> bool {
    let started = Instant::now();
    loop {
        let mut state = shared.lock(false);
        let more = state.db.delete_expired(MAX_KEYS_PER_EXPIRE_STEP);
        // Commands that wait for the mutex run before the next step.
        MutexGuard::unlock_fair(state);
        if !more || started.elapsed() >= MAX_EXPIRE_CYCLE_DURATION {
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
        if writer.is_run_marked() {
            shared.file_says_unclean.store(true, Ordering::Relaxed);
        } else {
            reject_writes(shared, "the start of this run could not be recorded");
        }
        Self {
            writer,
            batch: FlushBatch::default(),
            checkpoint_failed: false,
        }
    }

    /// Writes every change that was executed before the call to disk.
    fn flush(&mut self, shared: &EngineShared) -> FlushResult {
        let (bytes, entries) = {
            let journal = &mut shared.state.lock().db.journal;
            (journal.bytes(), journal.take_entries())
        };
        shared.write_gate.end_backpressure();
        self.batch.append(entries.into_iter().flatten(), bytes);
        if self.batch.is_empty() && self.writer.is_run_marked() {
            return Ok(());
        }
        let in_flight = &shared.bytes_in_flight;
        in_flight.store(self.batch.bytes(), Ordering::Relaxed);
        *shared.flush_started_at.lock() = Some(Instant::now());
        let written = self.writer.write(&self.batch);
        *shared.flush_started_at.lock() = None;
        if let Err(error) = written {
            exit_on_fsync_failure(&error);
            let reason = error.to_string();
            reject_writes(shared, &reason);
            return Err(reason.into());
        }
        self.batch = FlushBatch::default();
        in_flight.store(0, Ordering::Relaxed);
        shared.file_says_unclean.store(true, Ordering::Relaxed);
        if shared.write_gate.accept_writes() {
            let rejected_writes = shared.state.lock().db.take_rejected_writes();
            tracing::info!(
                rejected_writes,
                "the data folder is writable again, writes are accepted"
            );
        }
        shared
            .background
            .flush_count
            .send_modify(|count| *count += 1);
        self.checkpoint_if_due();
        Ok(())
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

    fn close(mut self, shared: &EngineShared) -> FlushResult {
        if let Err(reason) = self.flush(shared) {
            let bytes = self.batch.bytes();
            tracing::error!(%reason, bytes, "the store closes with changes that could not be written, they are lost");
            return Err(reason);
        }
        if let Err(error) = self.writer.close() {
            exit_on_fsync_failure(&error);
            tracing::warn!(%error, "all changes are written, but the store could not be marked as cleanly closed");
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EmbeddedEngine, EngineOptions, ManualClock};

    #[test]
    fn one_expire_cycle_deletes_the_expired_keys_of_a_memory_only_engine() {
        let clock = ManualClock::default();
        let engine = EmbeddedEngine::open(EngineOptions {
            clock: Arc::new(clock.clone()),
            ..EngineOptions::default()
        })
        .unwrap();
        let connection = engine.connection();
        for command in ["SET a 1 PX 10", "SET b 1"] {
            let mut words = command.split(' ');
            let mut set = redis::cmd(words.next().unwrap());
            set.arg(words.collect::<Vec<_>>());
            connection.try_execute(&set).unwrap().unwrap();
        }
        clock.advance(Duration::from_millis(11));
        assert!(!run_expire_cycle(&engine.shared), "no expired key is left");
        assert_eq!(engine.key_count(), 1);
    }
}
