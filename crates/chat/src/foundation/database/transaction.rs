//! Write transactions.
//!
//! Invariant: a transaction on SQLite holds the write lock from before it begins until after it ends.

use sqlx::{Postgres, Sqlite};

use super::{Database, PerBackend, SqliteWriteGuard};

/// A write transaction. It is rolled back unless it is committed. Run statements with
/// `for_backend!(tx.connection(), c => sqlx::query(SQL).execute(c).await)`.
pub struct WriteTransaction {
    inner: PerBackend<sqlx::Transaction<'static, Sqlite>, sqlx::Transaction<'static, Postgres>>,
    /// Released after the transaction has ended.
    _write_guard: Option<SqliteWriteGuard>,
}

impl Database {
    /// Begins a write transaction. It is rolled back unless it is committed.
    pub async fn begin(&self) -> Result<WriteTransaction, sqlx::Error> {
        match self.pools() {
            PerBackend::Sqlite(sqlite) => {
                let write_guard = sqlite.lock_writes().await?;
                // A transaction that begins with a read cannot write if another one has written meanwhile.
                let begun = sqlite.write_pool.begin_with("BEGIN IMMEDIATE").await?;
                Ok(WriteTransaction {
                    inner: PerBackend::Sqlite(begun),
                    _write_guard: Some(write_guard),
                })
            }
            PerBackend::Postgres(pool) => Ok(WriteTransaction {
                inner: PerBackend::Postgres(pool.begin().await?),
                _write_guard: None,
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
        match self.inner {
            PerBackend::Sqlite(transaction) => transaction.commit().await,
            PerBackend::Postgres(transaction) => transaction.commit().await,
        }
    }
}
