//! Write transactions.
//!
//! Invariant: a transaction on SQLite holds the write lock from before it begins until after it ends.

use sqlx::{Postgres, Sqlite};

use super::{Database, Either, SqliteWriteGuard};

/// A write transaction. It is rolled back unless it is committed. Run statements with
/// `on!(tx.connection(), c => sqlx::query(SQL).execute(c).await)`.
pub struct WriteTransaction {
    inner: Either<sqlx::Transaction<'static, Sqlite>, sqlx::Transaction<'static, Postgres>>,
    /// Released after the transaction has ended.
    _write_guard: Option<SqliteWriteGuard>,
}

impl Database {
    /// Begins a write transaction. It is rolled back unless it is committed.
    pub async fn begin(&self) -> Result<WriteTransaction, sqlx::Error> {
        match self.pools() {
            Either::Sqlite(sqlite) => {
                let write_guard = sqlite.lock_writes().await;
                // A transaction that begins with a read cannot write if another one has written meanwhile.
                let begun = sqlite.write_pool.begin_with("BEGIN IMMEDIATE").await?;
                Ok(WriteTransaction {
                    inner: Either::Sqlite(begun),
                    _write_guard: Some(write_guard),
                })
            }
            Either::Postgres(pool) => Ok(WriteTransaction {
                inner: Either::Postgres(pool.begin().await?),
                _write_guard: None,
            }),
        }
    }
}

impl WriteTransaction {
    /// The connection to run statements on.
    pub fn connection(&mut self) -> Either<&mut sqlx::SqliteConnection, &mut sqlx::PgConnection> {
        match &mut self.inner {
            Either::Sqlite(transaction) => Either::Sqlite(&mut *transaction),
            Either::Postgres(transaction) => Either::Postgres(&mut *transaction),
        }
    }

    /// Commits the transaction. On SQLite, `Synchronous` decides whether it is on disk when this returns.
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        match self.inner {
            Either::Sqlite(transaction) => transaction.commit().await,
            Either::Postgres(transaction) => transaction.commit().await,
        }
    }
}
