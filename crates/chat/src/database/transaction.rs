//! Transactions that may write.

use sqlx::{Postgres, Sqlite};

use super::{Database, Either, SqliteWriteGuard};

/// A transaction; it is undone unless it is committed. Run statements in it with
/// `on!(tx.connection(), c => sqlx::query(SQL).execute(c).await)`.
pub struct WriteTransaction {
    inner: Either<sqlx::Transaction<'static, Sqlite>, sqlx::Transaction<'static, Postgres>>,
    /// Given back after the transaction has ended.
    _write_guard: Option<SqliteWriteGuard>,
}

impl WriteTransaction {
    pub(super) async fn begin(database: &Database) -> Result<Self, sqlx::Error> {
        match database.pools() {
            Either::Sqlite(sqlite) => {
                let pen = sqlite.lock_writes().await;
                // A transaction that starts by reading could not write when somebody else did meanwhile.
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

    /// What statements run on.
    pub fn connection(&mut self) -> Either<&mut sqlx::SqliteConnection, &mut sqlx::PgConnection> {
        match &mut self.inner {
            Either::Sqlite(transaction) => Either::Sqlite(&mut *transaction),
            Either::Postgres(transaction) => Either::Postgres(&mut *transaction),
        }
    }

    /// Makes it so: when this has returned, all of it is on disk.
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        match self.inner {
            Either::Sqlite(transaction) => transaction.commit().await,
            Either::Postgres(transaction) => transaction.commit().await,
        }
    }
}
