//! Write transactions.

use sqlx::{Postgres, Sqlite};

use super::{Database, Either, SqliteWriteGuard};

/// A write transaction. It is rolled back unless it is committed. Run statements with
/// `for_backend!(tx.connection(), c => sqlx::query(SQL).execute(c).await)`.
pub struct WriteTransaction {
    inner: Either<sqlx::Transaction<'static, Sqlite>, sqlx::Transaction<'static, Postgres>>,
    /// Released after the transaction has ended.
    _write_guard: Option<SqliteWriteGuard>,
}

impl WriteTransaction {
    pub(super) async fn begin(database: &Database) -> Result<Self, sqlx::Error> {
        match database.pools() {
            Either::Sqlite(sqlite) => {
                let pen = sqlite.lock_writes().await;
                // A transaction that begins with a read cannot write if another one has written meanwhile.
                let begun = sqlite.write_pool.begin_with("BEGIN IMMEDIATE").await?;
                Ok(Self {
                    inner: Either::Sqlite(begun),
                    _write_guard: Some(pen),
                })
            }
            Either::Postgres(pool) => Ok(Self {
                inner: Either::Postgres(pool.begin().await?),
                _write_guard: None,
            }),
        }
    }

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
