//! Write transactions.
//!
//! Invariants:
//! 1. A transaction on SQLite holds the write lock from before it begins until after its commit. One that is dropped is
//!    rolled back shortly after the lock is released; the busy timeout of the connections covers this.
//! 2. A commit returns within `database.timeout`. After a timeout its result is not known.
//! 3. A failed transaction has no effect on the next one: a connection that is left in a transaction is closed.

use std::io;

use sqlx::{Postgres, Sqlite};
use tokio::time::timeout;

use super::error::classify_error;
use super::{Database, PerBackend, SqliteWriteGuard};

/// A write transaction. It is rolled back unless it is committed. Run statements with
/// `for_backend!(tx.connection(), c => sqlx::query(SQL).execute(c).await)`.
pub struct WriteTransaction {
    database: Database,
    inner: PerBackend<sqlx::Transaction<'static, Sqlite>, sqlx::Transaction<'static, Postgres>>,
    /// Released after the transaction has ended.
    write_guard: Option<SqliteWriteGuard>,
}

impl Database {
    /// Begins a write transaction. It is rolled back unless it is committed.
    pub async fn begin(&self) -> Result<WriteTransaction, sqlx::Error> {
        match self.pools() {
            PerBackend::Sqlite(sqlite) => {
                let locked = sqlite.lock_writes().await;
                let write_guard = locked.inspect_err(|error| {
                    self.record_failed_write(classify_error(error), error);
                })?;
                // A transaction that begins with a read cannot write if another one has written meanwhile.
                let begun = sqlite.write_pool.begin_with("BEGIN IMMEDIATE").await?;
                Ok(WriteTransaction {
                    database: self.clone(),
                    inner: PerBackend::Sqlite(begun),
                    write_guard: Some(write_guard),
                })
            }
            PerBackend::Postgres(pool) => Ok(WriteTransaction {
                database: self.clone(),
                inner: PerBackend::Postgres(pool.begin().await?),
                write_guard: None,
            }),
        }
    }
}

impl WriteTransaction {
    /// The connection to run statements on.
    pub fn connection(
        &mut self,
    ) -> PerBackend<&mut sqlx::SqliteConnection, &mut sqlx::PgConnection> {
        match &mut self.inner {
            PerBackend::Sqlite(transaction) => PerBackend::Sqlite(&mut *transaction),
            PerBackend::Postgres(transaction) => PerBackend::Postgres(&mut *transaction),
        }
    }

    /// Commits the transaction. On SQLite, `Synchronous` decides whether it is on disk when this returns.
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        let Self {
            database,
            inner,
            write_guard,
        } = self;
        // A commit whose sync hangs keeps the write lock after the timeout, so it runs on its own task.
        let commit = tokio::spawn(async move {
            let committed = match inner {
                PerBackend::Sqlite(transaction) => transaction.commit().await,
                PerBackend::Postgres(transaction) => transaction.commit().await,
            };
            drop(write_guard);
            committed
        });
        let committed = match timeout(database.options().timeout, commit).await {
            Ok(ended) => ended.unwrap_or(Err(sqlx::Error::WorkerCrashed)),
            Err(_) => Err(commit_timeout()),
        };
        database.record_write(&committed);
        committed
    }
}

/// Error of a commit that takes too long. It counts as unavailable.
pub(crate) fn commit_timeout() -> sqlx::Error {
    let text = "the commit takes longer than `database.timeout`; its result is not known";
    sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text))
}
