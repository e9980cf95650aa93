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

use super::failure::Failure;
use super::job::{Job, Outcome, drain, settle};
use super::{After, MOST_WAITING};
use crate::database::Fault;

/// How often a batch is repeated that was in somebody's way.
const MOST_CONFLICTS: usize = 10;
/// Batches look up some rows of large tables, whatever size those had when the plan was made: it is made once, with indexes.
const STEADY: &str = "
    SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off";

/// Starts a task; it ends when nobody can queue anything any more, and drops `end` then.
pub(super) fn start(
    pool: PgPool,
    timeout: Duration,
    after: Arc<dyn After>,
    end: watch::Sender<()>,
) -> mpsc::Sender<Job> {
    let (sender, mut queue) = mpsc::channel(MOST_WAITING);
    tokio::spawn(async move {
        let new = || Lane::new(pool.clone(), timeout, Arc::clone(&after));
        let mut lane = new();
        while let Some(first) = lane.next(&mut queue).await {
            let jobs = drain(first, &mut queue, timeout);
            // In a task of its own, whose panic ends no other.
            let work = tokio::spawn(async move {
                lane.work(jobs).await;
                lane
            });
            lane = work.await.unwrap_or_else(|error| {
                tracing::error!(%error, "writing messages panicked, those of this batch are refused");
                new()
            });
        }
        drop(lane);
        drop(end);
    });
    sender
}

/// One of the writers.
struct Lane {
    pool: PgPool,
    timeout: Duration,
    after: Arc<dyn After>,
    /// Kept between batches, which spares the question whether it is still there.
    link: Option<PoolConnection<Postgres>>,
}

impl Lane {
    fn new(pool: PgPool, timeout: Duration, after: Arc<dyn After>) -> Self {
        Self {
            pool,
            timeout,
            after,
            link: None,
        }
    }

    /// The next message in the queue. A pool that closes meanwhile does not wait for the connection.
    async fn next(&mut self, queue: &mut mpsc::Receiver<Job>) -> Option<Job> {
        if self.link.is_some() {
            let mut closing = self.pool.close_event();
            match closing.do_until(queue.recv()).await {
                Ok(job) => return job,
                Err(_) => self.unlink(),
            }
        }
        queue.recv().await
    }

    async fn work(&mut self, jobs: Vec<Job>) {
        let mut parts = vec![jobs];
        while let Some(jobs) = parts.pop() {
            let done = self.commit(&jobs).await;
            if let Some([some, rest]) = settle(jobs, done, &*self.after) {
                parts.extend([rest, some]);
            }
        }
    }

    /// Commits these messages, repeating what may be repeated.
    async fn commit(&mut self, jobs: &[Job]) -> Result<Vec<Outcome>, Failure> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let mut conflicts = 0;
        let mut in_doubt = false;
        loop {
            self.link().await?;
            let done = self.attempt(jobs, in_doubt).await;
            match done.as_ref().map_err(|failure| failure.fault) {
                Err(Fault::Conflict) if conflicts < MOST_CONFLICTS => conflicts += 1,
                Err(Fault::Away) => {
                    self.unlink();
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
    async fn link(&mut self) -> Result<(), Failure> {
        if self.link.is_none() {
            let mut link = self.pool.acquire().await?;
            sqlx::raw_sql(STEADY).execute(&mut *link).await?;
            self.link = Some(link);
        }
        Ok(())
    }

    async fn attempt(&mut self, jobs: &[Job], in_doubt: bool) -> Result<Vec<Outcome>, Failure> {
        let Some(link) = &mut self.link else {
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
    fn unlink(&mut self) {
        drop(self.link.take().map(PoolConnection::detach));
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.unlink();
    }
}
