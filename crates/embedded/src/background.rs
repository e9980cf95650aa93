//! What runs beside the commands: dropping expired keys and writing changes to disk, on one thread per engine.
//!
//! Always true:
//! 1. The engine's lock is held for a few hundred expired keys at a time, and for the swap of two pointers per flush.
//! 2. A batch that could not be written is tried again at every tick; until then writes are refused and nothing that was
//!    accepted is lost to the running process.
//! 3. After a failed fsync the process ends: nobody can say any more what is on the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use crate::engine::Shared;
use crate::error::Error;
use crate::persist::{Batch, Writer, is_failed_fsync};

/// How the process ends after a failed fsync (`EX_IOERR` of sysexits).
const FAILED_FSYNC_EXIT: i32 = 74;
const SHORTEST_TICK: Duration = Duration::from_millis(1);
/// Far enough away to mean never, near enough for the arithmetic of time.
const LONGEST_TICK: Duration = Duration::from_secs(365 * 86_400);
const SWEEP_EVERY: Duration = Duration::from_millis(100);
/// How long one round of sweeping may go on before a flush gets its turn.
const SWEEP_ROUND: Duration = Duration::from_millis(25);
/// How many expired keys are dropped under one hold of the lock.
const SWEEP_STEP: usize = 200;

/// Figures about flushing.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    last_flush_us: AtomicU64,
    in_flight: AtomicUsize,
}

impl Figures {
    /// How long the last flush took.
    pub fn last_flush(&self) -> Duration {
        Duration::from_micros(self.last_flush_us.load(Ordering::Relaxed))
    }

    /// About how many bytes were taken from the journal and are not written yet.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }
}

/// Ends the thread when the last engine handle goes.
pub(crate) struct Life {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Life {
    /// Starts the thread.
    pub fn start(shared: Arc<Shared>, writer: Option<Writer>) -> std::io::Result<Self> {
        let mut worker = Worker {
            shared: shared.clone(),
            flusher: None,
        };
        if let Some(writer) = writer {
            worker.flusher = Some(Flusher::new(writer, &shared));
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

impl Drop for Life {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported there, and a drop has nobody to tell.
            let _ = thread.join();
        }
    }
}

struct Worker {
    shared: Arc<Shared>,
    flusher: Option<Flusher>,
}

impl Worker {
    fn run(mut self) {
        let tick = self.shared.options.tick.clamp(SHORTEST_TICK, LONGEST_TICK);
        let (mut next_sweep, mut next_flush) = (Instant::now(), Instant::now() + tick);
        loop {
            let next = if self.flusher.is_some() {
                next_sweep.min(next_flush)
            } else {
                next_sweep
            };
            let wishes = self.shared.control.sleep_until(next);
            if wishes.stop {
                break;
            }
            let now = Instant::now();
            if now >= next_sweep {
                let pause = if sweep(&self.shared, Some(SWEEP_ROUND)) {
                    Duration::ZERO
                } else {
                    SWEEP_EVERY
                };
                next_sweep = now + pause;
            }
            if wishes.hurry || now >= next_flush {
                next_flush = now + tick;
                let failure = self
                    .flusher
                    .as_mut()
                    .and_then(|flusher| flusher.flush(&self.shared));
                self.shared.control.answer(wishes.flush, failure);
            }
        }
    }
}

impl Drop for Worker {
    /// Also runs should the thread panic: callers must not wait for what never comes.
    fn drop(&mut self) {
        self.shared.stop();
        let failure = self
            .flusher
            .take()
            .and_then(|flusher| flusher.close(&self.shared));
        self.shared.control.answer(u64::MAX, failure);
        self.shared.control.end();
    }
}

/// Drops keys that are over, for about as long as `round`. Whether there are more.
pub(crate) fn sweep(shared: &Shared, round: Option<Duration>) -> bool {
    let started = Instant::now();
    loop {
        let mut core = shared.lock();
        let more = core.db.sweep(SWEEP_STEP);
        // Commands that wait for the lock come before the next step.
        MutexGuard::unlock_fair(core);
        if !more || round.is_some_and(|round| started.elapsed() >= round) {
            return more;
        }
    }
}

struct Flusher {
    writer: Writer,
    batch: Batch,
    /// Whether the log could not be moved into the file last time; told once.
    untidy: bool,
}

impl Flusher {
    fn new(writer: Writer, shared: &Shared) -> Self {
        if !writer.is_marked() {
            refuse_writes(shared, "the start of this run could not be noted");
        }
        Self {
            writer,
            batch: Batch::default(),
            untidy: false,
        }
    }

    /// Makes everything durable that was executed before. Gives the reason when that failed.
    fn flush(&mut self, shared: &Shared) -> Option<Arc<str>> {
        let (bytes, effects) = {
            let journal = &mut shared.core.lock().db.journal;
            (journal.bytes(), journal.take())
        };
        shared.gate.relieve();
        let started = Instant::now();
        self.batch.absorb(effects.into_iter().flatten(), bytes);
        if self.batch.is_empty() && self.writer.is_marked() {
            return None;
        }
        shared
            .figures
            .in_flight
            .store(self.batch.bytes(), Ordering::Relaxed);
        if let Err(error) = self.writer.write(&self.batch) {
            end_if_failed_fsync(&error);
            let reason = error.to_string();
            refuse_writes(shared, &reason);
            return Some(reason.into());
        }
        self.batch = Batch::default();
        shared.figures.in_flight.store(0, Ordering::Relaxed);
        let took = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        shared.figures.last_flush_us.store(took, Ordering::Relaxed);
        if shared.gate.recover() {
            tracing::info!("the data folder can be written again, writes are accepted");
        }
        shared.control.flushed();
        self.tidy();
        None
    }

    fn tidy(&mut self) {
        match self.writer.tidy() {
            Ok(()) => self.untidy = false,
            Err(error) => {
                end_if_failed_fsync(&error);
                // What was flushed is safe in the log; should the log find no room either, the next flush will tell.
                if !std::mem::replace(&mut self.untidy, true) {
                    tracing::warn!(%error, "the store's log cannot be moved into its file, it grows meanwhile");
                }
            }
        }
    }

    fn close(mut self, shared: &Shared) -> Option<Arc<str>> {
        let unwritten = self.flush(shared);
        if let Some(reason) = &unwritten {
            let bytes = self.batch.bytes();
            tracing::error!(%reason, bytes, "the store ends with changes that could not be written, they are lost");
            return unwritten;
        }
        if let Err(error) = self.writer.close() {
            end_if_failed_fsync(&error);
            tracing::warn!(%error, "everything is written, but the store could not be marked as cleanly closed");
        }
        None
    }
}

fn refuse_writes(shared: &Shared, reason: &str) {
    let error = Error::new(format!(
        "MISCONF the data folder is full or cannot be written ({reason}); writes are refused until there is room, \
         reads go on"
    ));
    if shared.gate.fail(error) {
        tracing::error!(
            reason,
            "the data folder is full or cannot be written, writes are refused until there is room"
        );
    }
}

fn end_if_failed_fsync(error: &rusqlite::Error) {
    if is_failed_fsync(error) {
        tracing::error!(%error, "fsync of the store failed, the process ends");
        eprintln!(
            "fsync of the embedded store failed ({error}): what is on the disk is unknown, so the process ends; \
             check the disk, then start again from the last state that was written whole"
        );
        std::process::exit(FAILED_FSYNC_EXIT);
    }
}
