//! Writing to SQLite: one thread with a connection of its own.
//!
//! Always true: the thread holds the pen while it writes, and only then; a panic in it is an error for the messages of that
//! commit and for no others.

mod batch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use tokio::sync::{mpsc, watch};

use super::failure::Failure;
use super::job::{Job, Outcome, drain, settle};
use super::{After, MOST_AT_ONCE, MOST_WAITING};
use crate::database::{Database, Either, Pen, Sqlite, Synchronous};

/// How often nothing may have come when others went first, before a commit begins; …
const QUIET: u32 = 4;
/// … and how long that takes at most: about as long as a core is busy with what a whole commit lets loose.
const MOST_GATHERED: Duration = Duration::from_millis(60);
/// Messages of a commit from which on the next one waits for more: where few come at a time there is nothing to wait for.
const MANY: usize = 4;
/// Pages in the log at which it is moved into the file: the same pages are written again and again.
const CHECKPOINT: u32 = 4_000;

/// Starts the thread; it ends when nobody can queue anything any more, and drops `end` then.
pub(super) fn start(
    database: Database,
    after: Arc<dyn After>,
    end: watch::Sender<()>,
) -> mpsc::Sender<Job> {
    let (sender, queue) = mpsc::channel(MOST_WAITING);
    let mut file = File {
        database,
        after,
        connection: None,
        last: 0,
    };
    let work = move || {
        serve(queue, |first, queue| file.work(first, queue));
        drop(end);
    };
    let started = thread::Builder::new()
        .name("parlor-writer".into())
        .spawn(work);
    if let Err(error) = started {
        // The queue is closed: every message is refused.
        tracing::error!(%error, "cannot start the thread that writes messages");
    }
    sender
}

/// Works while there is a first message.
fn serve(mut queue: mpsc::Receiver<Job>, mut work: impl FnMut(Job, &mut mpsc::Receiver<Job>)) {
    while let Some(first) = queue.blocking_recv() {
        let worked = catch_unwind(AssertUnwindSafe(|| work(first, &mut queue)));
        if worked.is_err() {
            tracing::error!("writing messages panicked, those of this commit are refused");
        }
    }
}

/// Lets those go first who are about to queue something. On a core with nothing else to do this is over at once; on one that
/// is busy a commit begins when nothing more comes, and takes all of it.
fn gather(queue: &mpsc::Receiver<Job>) {
    let since = Instant::now();
    let (mut queued, mut quiet) = (queue.len(), 0);
    while quiet < QUIET && queued < MOST_AT_ONCE && since.elapsed() < MOST_GATHERED {
        thread::yield_now();
        let now = queue.len();
        quiet = if now == queued { quiet + 1 } else { 0 };
        queued = now;
    }
}

struct File {
    database: Database,
    after: Arc<dyn After>,
    connection: Option<Connection>,
    /// Messages of the last commit.
    last: usize,
}

impl File {
    fn work(&mut self, first: Job, queue: &mut mpsc::Receiver<Job>) {
        let timeout = self.database.options().timeout;
        if self.last.max(1 + queue.len()) >= MANY {
            gather(queue);
        }
        // What comes while somebody else writes is in the same commit.
        let mut pen = self.pen();
        let mut jobs = drain(first, queue, timeout);
        self.last = jobs.len();
        // So that rows that lie side by side are written one after the other. Those of one conversation stay in their order.
        jobs.sort_by_cached_key(|job| job.draft.conversation.clone());
        let mut parts = vec![jobs];
        while let Some(jobs) = parts.pop() {
            let held = pen.take().or_else(|| self.pen());
            let done = self.commit(&jobs);
            drop(held);
            if let Some([some, rest]) = settle(jobs, done, &*self.after) {
                parts.extend([rest, some]);
            }
        }
    }

    fn sqlite(&self) -> Option<&Sqlite> {
        match self.database.pools() {
            Either::Sqlite(sqlite) => Some(sqlite),
            Either::Postgres(_) => None,
        }
    }

    fn pen(&self) -> Option<Pen> {
        self.sqlite().map(Sqlite::pen_blocking)
    }

    fn commit(&mut self, jobs: &[Job]) -> Result<Vec<Outcome>, Failure> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        // After a failure: another connection may find another file, or one that can be read again.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.open()?,
        };
        let done = batch::commit(&mut connection, jobs);
        if done.as_ref().map_or_else(Failure::is_refused, |_| true) {
            self.connection = Some(connection);
        }
        done
    }

    fn open(&self) -> Result<Connection, Failure> {
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
        // Whatever a message refers to was read in its transaction.
        connection.pragma_update(None, "foreign_keys", false)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT)?;
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::messages::writer::job::tests::draft;
    use crate::messages::writer::{Answer, Ticket};

    #[test]
    fn a_panic_hangs_nobody_and_ends_nothing() {
        let (sender, queue) = mpsc::channel(8);
        let mut answers = Vec::new();
        for content in ["one", "panic", "two"] {
            let (answer, answered) = oneshot::channel();
            let job = Job::new(draft(content), Ticket::new(answer));
            assert!(sender.blocking_send(job).is_ok());
            answers.push(answered);
        }
        drop(sender);
        serve(queue, |job, _| {
            assert_ne!(job.draft.content, "panic");
            assert!(settle(vec![job], Ok(vec![Outcome::NotAMember]), &Answer).is_none());
        });
        let answered: Vec<_> = answers
            .into_iter()
            .map(|it| it.blocking_recv().is_ok())
            .collect();
        assert_eq!(answered, [true, false, true]);
    }
}
