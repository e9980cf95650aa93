//! Writer for SQLite: one thread with its own connection.
//!
//! Invariants:
//! 1. The thread holds the SQLite write lock while it writes, and only then.
//! 2. A panic fails only the messages of the running commit.

mod batch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use tokio::sync::{mpsc, watch};

use super::commit_error::CommitError;
use super::job::{DraftOutcome, WriteJob, drain_batch, finish_batch};
use super::{CommitObserver, MAX_BATCH_SIZE, QUEUE_CAPACITY};
use crate::database::{Database, PerBackend, SqlitePools, SqliteWriteGuard, Synchronous};

/// The writer yields to other tasks to let them queue more messages. The commit starts after this many consecutive
/// yields without a new message.
const MAX_IDLE_YIELDS: u32 = 4;
/// Longest time the writer collects messages: about the CPU time that the follow-up work of one full batch takes.
const MAX_GATHER_TIME: Duration = Duration::from_millis(60);
/// The writer collects messages only if the previous batch or the queue has at least this many. With fewer senders,
/// waiting would not make the batch larger.
const MIN_BATCH_TO_GATHER: usize = 4;
/// WAL size in pages that triggers a checkpoint. A large value avoids copying the same hot pages to the database file
/// often.
const WAL_CHECKPOINT_PAGES: u32 = 4_000;

/// Starts the writer thread. It ends when all senders of the queue are dropped, and then drops `drained_signal`.
pub(super) fn start(
    database: Database,
    observer: Arc<dyn CommitObserver>,
    drained_signal: watch::Sender<()>,
) -> mpsc::Sender<WriteJob> {
    let (sender, queue) = mpsc::channel(QUEUE_CAPACITY);
    let mut writer = SqliteWriter {
        database,
        observer,
        connection: None,
        last_batch_size: 0,
    };
    let work = move || {
        run_loop(queue, |first, queue| writer.write_batch(first, queue));
        drop(drained_signal);
    };
    let thread = thread::Builder::new().name("parlor-writer".into());
    if let Err(error) = thread.spawn(work) {
        // The queue is closed, so every message is rejected.
        tracing::error!(%error, "cannot start the message writer thread");
    }
    sender
}

/// Loop of the thread, until the queue is closed.
fn run_loop(
    mut queue: mpsc::Receiver<WriteJob>,
    mut work: impl FnMut(WriteJob, &mut mpsc::Receiver<WriteJob>),
) {
    while let Some(first) = queue.blocking_recv() {
        let worked = catch_unwind(AssertUnwindSafe(|| work(first, &mut queue)));
        if worked.is_err() {
            tracing::error!(
                "the message writer panicked; the messages of this commit are rejected"
            );
        }
    }
}

/// Yields so that other tasks can queue more messages. This ends at once on an idle core. On a busy core it ends when
/// no more messages arrive, and the batch contains all of them.
fn wait_for_more(queue: &mpsc::Receiver<WriteJob>) {
    let since = Instant::now();
    let (mut queued, mut idle_yields) = (queue.len(), 0);
    while idle_yields < MAX_IDLE_YIELDS
        && queued < MAX_BATCH_SIZE
        && since.elapsed() < MAX_GATHER_TIME
    {
        thread::yield_now();
        let now = queue.len();
        idle_yields = if now == queued { idle_yields + 1 } else { 0 };
        queued = now;
    }
}

struct SqliteWriter {
    database: Database,
    observer: Arc<dyn CommitObserver>,
    connection: Option<Connection>,
    /// Size of the previous batch.
    last_batch_size: usize,
}

impl SqliteWriter {
    fn write_batch(&mut self, first: WriteJob, queue: &mut mpsc::Receiver<WriteJob>) {
        let timeout = self.database.options().timeout;
        let Some(first) = first.reject_if_expired(timeout) else {
            return;
        };
        if self.last_batch_size.max(1 + queue.len()) >= MIN_BATCH_TO_GATHER {
            wait_for_more(queue);
        }
        // Messages that are queued while another writer holds the lock join this batch.
        let mut lock = match self.write_lock() {
            Ok(lock) => Some(lock),
            Err(error) => {
                // The messages behind it have waited for a shorter time.
                let failed = Err(error);
                CommitError::record(&failed, &self.database);
                finish_batch(vec![first], failed, &*self.observer);
                return;
            }
        };
        let mut jobs = drain_batch(first, queue, timeout);
        self.last_batch_size = jobs.len();
        // Sorted so that neighbouring rows are written together. Messages of one conversation keep their order.
        jobs.sort_by_cached_key(|job| job.draft.conversation.clone());
        let mut parts = vec![jobs];
        while let Some(jobs) = parts.pop() {
            let result = match lock.take().map_or_else(|| self.write_lock(), Ok) {
                // The guard is dropped after the commit.
                Ok(_guard) => self.commit(&jobs),
                Err(error) => Err(error),
            };
            CommitError::record(&result, &self.database);
            if let Some([some, rest]) = finish_batch(jobs, result, &*self.observer) {
                parts.extend([rest, some]);
            }
        }
    }

    fn sqlite(&self) -> Option<&SqlitePools> {
        match self.database.pools() {
            PerBackend::Sqlite(sqlite) => Some(sqlite),
            PerBackend::Postgres(_) => None,
        }
    }

    fn write_lock(&self) -> Result<Option<SqliteWriteGuard>, CommitError> {
        let lock = self.sqlite().map(SqlitePools::lock_writes_blocking);
        Ok(lock.transpose()?)
    }

    fn commit(&mut self, jobs: &[WriteJob]) -> Result<Vec<DraftOutcome>, CommitError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        // Opens a new connection after a failure: it may find another file, or one that can be read again.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.open()?,
        };
        let result = batch::commit(&mut connection, jobs);
        if result
            .as_ref()
            .err()
            .is_none_or(CommitError::is_statement_refused)
        {
            self.connection = Some(connection);
        }
        result
    }

    fn open(&self) -> Result<Connection, CommitError> {
        let options = self.database.options();
        let path = self.sqlite().map(|it| it.path.as_path());
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path.unwrap_or("".as_ref()), flags)?;
        connection.busy_timeout(options.timeout)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        let synchronous = match options.synchronous {
            Synchronous::Full => "full",
            Synchronous::Normal => "normal",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        // The transaction has read the rows that a message refers to, so foreign keys need no check.
        connection.pragma_update(None, "foreign_keys", false)?;
        connection.pragma_update(None, "wal_autocheckpoint", WAL_CHECKPOINT_PAGES)?;
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::writer::ReplyOnlyObserver;
    use crate::messages::writer::job::tests::job;

    #[test]
    fn a_panic_in_the_writer_fails_one_job_and_the_writer_continues() {
        let (sender, queue) = mpsc::channel(8);
        let mut replies = Vec::new();
        for content in ["one", "panic", "two"] {
            let (job, reply) = job(content);
            assert!(sender.blocking_send(job).is_ok());
            replies.push(reply);
        }
        drop(sender);
        run_loop(queue, |job, _| {
            assert_ne!(job.draft.content, "panic");
            let outcomes = Ok(vec![DraftOutcome::NotAMember]);
            assert!(finish_batch(vec![job], outcomes, &ReplyOnlyObserver).is_none());
        });
        let replies = replies.into_iter().map(|it| it.blocking_recv().is_ok());
        assert_eq!(replies.collect::<Vec<_>>(), [true, false, true]);
    }
}
