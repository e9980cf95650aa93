//! Writing to PostgreSQL: a few tasks, each with a connection of its own.
//!
//! Always true:
//! 1. A batch takes the same number of round trips whatever its size.
//! 2. After a commit whose reply was lost, it is repeated under the same locks, and what had been written is found by its id.
//! 3. A panic is an error for the messages of that batch and for no others.

mod batch;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{PgPool, Postgres};
use tokio::sync::{mpsc, watch};

use super::failure::CommitError;
use super::job::{DraftOutcome, WriteJob, drain_batch, finish_batch};
use super::{CommitObserver, QUEUE_CAPACITY};
use crate::database::DatabaseErrorKind;

/// How often a batch is repeated that was in somebody's way.
const MAX_CONFLICT_RETRIES: usize = 10;
/// Batches look up some rows of large tables, whatever size those had when the plan was made: it is made once, with indexes.
const SESSION_SETTINGS: &str = "
    SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off";

/// Starts a task; it ends when nobody can queue anything any more, and drops `end` then.
pub(super) fn start(
    pool: PgPool,
    timeout: Duration,
    after: Arc<dyn CommitObserver>,
    end: watch::Sender<()>,
) -> mpsc::Sender<WriteJob> {
    let (sender, mut queue) = mpsc::channel(QUEUE_CAPACITY);
    tokio::spawn(async move {
        let new = || PostgresWriter::new(pool.clone(), timeout, Arc::clone(&after));
        let mut lane = new();
        while let Some(first) = lane.next_job(&mut queue).await {
            let jobs = drain_batch(first, &mut queue, timeout);
            // In a task of its own, whose panic ends no other.
            let work = tokio::spawn(async move {
                lane.write_batch(jobs).await;
                lane
            });
            lane = work.await.unwrap_or_else(|error| {
                tracing::error!(%error, "the message writer panicked; the messages of this batch are rejected");
                new()
            });
        }
        drop(lane);
        drop(end);
    });
    sender
}

/// One of the writers.
struct PostgresWriter {
    pool: PgPool,
    timeout: Duration,
    after: Arc<dyn CommitObserver>,
    /// Kept between batches, which spares the question whether it is still there.
    connection: Option<PoolConnection<Postgres>>,
}

impl PostgresWriter {
    fn new(pool: PgPool, timeout: Duration, after: Arc<dyn CommitObserver>) -> Self {
        Self {
            pool,
            timeout,
            after,
            connection: None,
        }
    }

    /// The next message in the queue. A pool that closes meanwhile does not wait for the connection.
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
            let done = self.commit(&jobs).await;
            if let Some([some, rest]) = finish_batch(jobs, done, &*self.after) {
                parts.extend([rest, some]);
            }
        }
    }

    /// Commits these messages, repeating what may be repeated.
    async fn commit(&mut self, jobs: &[WriteJob]) -> Result<Vec<DraftOutcome>, CommitError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let mut conflicts = 0;
        let mut in_doubt = false;
        loop {
            self.ensure_connected().await?;
            let done = self.attempt(jobs, in_doubt).await;
            match done.as_ref().map_err(|failure| failure.fault) {
                Err(DatabaseErrorKind::Conflict) if conflicts < MAX_CONFLICT_RETRIES => {
                    conflicts += 1
                }
                Err(DatabaseErrorKind::Unavailable) => {
                    self.discard_connection();
                    if in_doubt {
                        return done;
                    }
                    in_doubt = true;
                }
                _ => return done,
            }
        }
    }

    /// Waits for a connection if there is none, as long as the pool does.
    async fn ensure_connected(&mut self) -> Result<(), CommitError> {
        if self.connection.is_none() {
            let mut link = self.pool.acquire().await?;
            sqlx::raw_sql(SESSION_SETTINGS).execute(&mut *link).await?;
            self.connection = Some(link);
        }
        Ok(())
    }

    async fn attempt(
        &mut self,
        jobs: &[WriteJob],
        in_doubt: bool,
    ) -> Result<Vec<DraftOutcome>, CommitError> {
        let Some(link) = &mut self.connection else {
            return Err(sqlx::Error::PoolClosed.into());
        };
        let drafts: Vec<_> = jobs.iter().map(|job| &job.draft).collect();
        let batch = batch::commit(link, &drafts, in_doubt);
        match tokio::time::timeout(self.timeout, batch).await {
            Ok(done) => Ok(done?),
            // The server is cut off or stopped: nothing else would end this.
            Err(_) => Err(sqlx::Error::PoolTimedOut.into()),
        }
    }

    /// Gives the connection up: it is broken, or is set up for this work only.
    fn discard_connection(&mut self) {
        drop(self.connection.take().map(PoolConnection::detach));
    }
}

impl Drop for PostgresWriter {
    fn drop(&mut self) {
        self.discard_connection();
    }
}
