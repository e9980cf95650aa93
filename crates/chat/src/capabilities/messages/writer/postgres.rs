//! Writer for PostgreSQL: a few tasks, each with its own connection.
//!
//! Invariants:
//! 1. A batch takes the same number of round trips whatever its size.
//! 2. If the reply to a commit is lost, the batch is repeated under the same locks. Messages that were committed are
//!    found by their ids.
//! 3. A panic fails only the messages of the running batch.

mod batch;
mod plan;

use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::{PgPool, Postgres};
use tokio::sync::{mpsc, watch};

use super::commit_error::CommitError;
use super::job::{DraftOutcome, WriteJob, drain_batch, finish_batch};
use super::{CommitObserver, QUEUE_CAPACITY};
use crate::database::{Database, DatabaseErrorKind};

/// Retries of a batch after a deadlock or serialization failure.
const MAX_CONFLICT_RETRIES: usize = 10;
/// A batch looks up few rows of large tables. The plan is made once, perhaps while the tables are small, so it is
/// forced to use indexes.
const SESSION_SETTINGS: &str = "
    SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off";

/// Starts a writer task. It ends when all senders of the queue are dropped, and then drops `drained_signal`.
pub(super) fn start(
    database: Database,
    pool: PgPool,
    observer: Arc<dyn CommitObserver>,
    drained_signal: watch::Sender<()>,
) -> mpsc::Sender<WriteJob> {
    let (sender, mut queue) = mpsc::channel(QUEUE_CAPACITY);
    let timeout = database.options().timeout;
    tokio::spawn(async move {
        let new = || PostgresWriter::new(database.clone(), pool.clone(), Arc::clone(&observer));
        let mut writer = new();
        while let Some(first) = writer.next_job(&mut queue).await {
            let jobs = drain_batch(first, &mut queue, timeout);
            // Runs on its own task, so that a panic does not end this one.
            let commit = tokio::spawn(async move {
                writer.write_batch(jobs).await;
                writer
            });
            writer = commit.await.unwrap_or_else(|error| {
                tracing::error!(%error, "the message writer panicked; the messages of this batch are rejected");
                new()
            });
        }
        drop(writer);
        drop(drained_signal);
    });
    sender
}

/// One writer task.
struct PostgresWriter {
    database: Database,
    pool: PgPool,
    observer: Arc<dyn CommitObserver>,
    /// Kept between batches: the pool would check on each acquire whether the connection is alive.
    connection: Option<PoolConnection<Postgres>>,
}

impl PostgresWriter {
    fn new(database: Database, pool: PgPool, observer: Arc<dyn CommitObserver>) -> Self {
        Self {
            database,
            pool,
            observer,
            connection: None,
        }
    }

    /// Returns the next job. If the pool closes meanwhile, the connection is released, because the pool waits for it.
    async fn next_job(&mut self, queue: &mut mpsc::Receiver<WriteJob>) -> Option<WriteJob> {
        if self.connection.is_some() {
            let mut closing = self.pool.close_event();
            match closing.do_until(queue.recv()).await {
                Ok(job) => return job,
                Err(_) => self.discard_connection(),
            }
        }
        queue.recv().await
    }

    async fn write_batch(&mut self, jobs: Vec<WriteJob>) {
        let mut parts = vec![jobs];
        while let Some(jobs) = parts.pop() {
            let result = self.commit(&jobs).await;
            CommitError::record(&result, &self.database);
            if let Some([some, rest]) = finish_batch(jobs, result, &*self.observer) {
                parts.extend([rest, some]);
            }
        }
    }

    /// Commits these messages. Retries after a conflict, and once after a lost connection.
    async fn commit(&mut self, jobs: &[WriteJob]) -> Result<Vec<DraftOutcome>, CommitError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let mut conflicts = 0;
        let mut may_be_committed = false;
        loop {
            self.ensure_connected().await?;
            let result = self.attempt(jobs, may_be_committed).await;
            match result.as_ref().map_err(|failure| failure.fault) {
                Err(DatabaseErrorKind::Conflict) if conflicts < MAX_CONFLICT_RETRIES => {
                    conflicts += 1;
                }
                Err(DatabaseErrorKind::Unavailable) => {
                    self.discard_connection();
                    if may_be_committed {
                        return result;
                    }
                    may_be_committed = true;
                }
                _ => return result,
            }
        }
    }

    /// Acquires a connection if there is none, within the timeout of the pool.
    async fn ensure_connected(&mut self) -> Result<(), CommitError> {
        if self.connection.is_none() {
            let mut connection = self.pool.acquire().await?;
            sqlx::raw_sql(SESSION_SETTINGS)
                .execute(&mut *connection)
                .await?;
            self.connection = Some(connection);
        }
        Ok(())
    }

    async fn attempt(
        &mut self,
        jobs: &[WriteJob],
        may_be_committed: bool,
    ) -> Result<Vec<DraftOutcome>, CommitError> {
        let Some(connection) = &mut self.connection else {
            return Err(sqlx::Error::PoolClosed.into());
        };
        let drafts: Vec<_> = jobs.iter().map(|job| &job.draft).collect();
        let batch = batch::commit(connection, &drafts, may_be_committed);
        match tokio::time::timeout(self.database.options().timeout, batch).await {
            Ok(result) => Ok(result?),
            // The server is unreachable or stopped: the connection itself may never report an error.
            Err(_) => Err(sqlx::Error::PoolTimedOut.into()),
        }
    }

    /// Closes the connection instead of returning it to the pool: it is broken, or has settings that other users of the
    /// pool do not need.
    fn discard_connection(&mut self) {
        drop(self.connection.take().map(PoolConnection::detach));
    }
}

impl Drop for PostgresWriter {
    fn drop(&mut self) {
        self.discard_connection();
    }
}
