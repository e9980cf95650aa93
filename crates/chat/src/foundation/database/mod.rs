//! The SQL database, which is the source of truth: a SQLite file in the data folder, or PostgreSQL for several nodes.
//!
//! Invariants:
//! 1. Both backends run the same statements, with `$1` placeholders. Only migrations and batch statements differ.
//!    Numbers are BIGINT, booleans 0 or 1, timestamps milliseconds since 1970, everything else is text.
//! 2. [`Database::open`] applies missing migrations. It rejects a database that a newer version has migrated.
//! 3. Every write to SQLite holds the write lock ([`SqliteWriteGuard`]), which is first come, first served. Writers
//!    therefore never wait for SQLite's own lock, which has no order.

pub mod copy;
mod error;
mod inspect;
mod migrations;
mod open;
mod options;
mod transaction;

use std::path::PathBuf;
use std::sync::Arc;

use sqlx::{PgPool, SqlitePool};
use tokio::sync::{Mutex, OwnedMutexGuard};

pub(crate) use self::error::classify_sqlite_code;
pub use self::error::{DatabaseErrorKind, DatabaseOpenError, classify_error};
pub use self::inspect::{DatabaseInspection, MIN_POSTGRES_VERSION, inspect};
pub(crate) use self::open::MESSAGE_WRITER_CONNECTIONS;
pub use self::options::{DatabaseOptions, DatabaseUrl, DatabaseUrlError, Synchronous};
pub use self::transaction::WriteTransaction;

/// Compiles an expression or block for each backend:
/// `for_backend!(database.read_pool(), pool => sqlx::query(SQL).bind(id).fetch_one(pool).await)`.
macro_rules! on {
    ($either:expr, $it:pat => $body:expr) => {
        match $either {
            $crate::database::Either::Sqlite($it) => $body,
            $crate::database::Either::Postgres($it) => $body,
        }
    };
}
pub(crate) use on;

/// Runs a single writing statement. On PostgreSQL this is one round trip; on SQLite the statement runs in a transaction
/// that holds the write lock:
/// `write_statement!(database, c => sqlx::query(SQL).bind(id).execute(c).await?.rows_affected())`.
macro_rules! write_statement {
    ($database:expr, $it:ident => $body:expr) => {
        match $database.pools() {
            // A single statement is a transaction by itself.
            $crate::database::Either::Postgres($it) => $body,
            $crate::database::Either::Sqlite(_) => {
                let mut tx = $database.begin().await?;
                let $crate::database::Either::Sqlite($it) = tx.connection() else {
                    unreachable!("a transaction has the backend of its database")
                };
                let changed = $body;
                tx.commit().await?;
                changed
            }
        }
    };
}
pub(crate) use write_statement;

/// Converts a number to a database integer, saturating: no `seq` and no timestamp is that large.
pub(crate) fn to_db_integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Converts a database integer to a number; negative values, which do not occur, become 0.
pub(crate) fn from_db_integer(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

/// One value for SQLite and another one for PostgreSQL.
#[derive(Debug, Clone, Copy)]
pub enum Either<S, P> {
    /// The value for SQLite.
    Sqlite(S),
    /// The value for PostgreSQL.
    Postgres(P),
}

/// Guard of the SQLite write lock.
pub type SqliteWriteGuard = OwnedMutexGuard<()>;

/// An open database. Cloning copies a pointer.
#[derive(Clone)]
pub struct Database {
    inner: Arc<DatabaseInner>,
}

struct DatabaseInner {
    pools: Either<Sqlite, PgPool>,
    id: String,
    options: DatabaseOptions,
}

/// The connection pools of a SQLite file.
pub(crate) struct Sqlite {
    pub(crate) readers: SqlitePool,
    /// Pool with one connection.
    pub(crate) write_pool: SqlitePool,
    pub(crate) path: PathBuf,
    pen: Arc<Mutex<()>>,
}

impl Sqlite {
    /// Waits for the write lock.
    pub(crate) async fn lock_writes(&self) -> SqliteWriteGuard {
        Arc::clone(&self.pen).lock_owned().await
    }

    /// As [`lock_writes`](Self::lock_writes), for a thread that may block.
    pub(crate) fn lock_writes_blocking(&self) -> SqliteWriteGuard {
        Arc::clone(&self.pen).blocking_lock_owned()
    }
}

impl Database {
    /// The random id that the database got when it was created. The store contains the id of its database.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// The options that the database was opened with.
    pub fn options(&self) -> &DatabaseOptions {
        &self.inner.options
    }

    /// The pool for single reads.
    pub fn reader(&self) -> Either<&SqlitePool, &PgPool> {
        match &self.inner.pools {
            Either::Sqlite(sqlite) => Either::Sqlite(&sqlite.readers),
            Either::Postgres(pool) => Either::Postgres(pool),
        }
    }

    /// The pools of the backend, for the message writer.
    pub(crate) fn pools(&self) -> Either<&Sqlite, &PgPool> {
        match &self.inner.pools {
            Either::Sqlite(sqlite) => Either::Sqlite(sqlite),
            Either::Postgres(pool) => Either::Postgres(pool),
        }
    }

    /// Begins a write transaction. It is rolled back unless it is committed.
    pub async fn begin(&self) -> Result<WriteTransaction, sqlx::Error> {
        WriteTransaction::begin(self).await
    }

    /// Checks that the database responds.
    pub async fn ping(&self) -> Result<(), sqlx::Error> {
        on!(self.reader(), pool => sqlx::query("SELECT 1").execute(pool).await.map(drop))
    }

    /// Closes all connections after the running statements have finished.
    pub async fn close(&self) {
        match &self.inner.pools {
            Either::Sqlite(sqlite) => {
                sqlite.readers.close().await;
                sqlite.write_pool.close().await;
            }
            Either::Postgres(pool) => pool.close().await,
        }
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({})", self.inner.options.url)
    }
}
