//! The database: what is true for good. SQLite in the data folder, or PostgreSQL for several nodes.
//!
//! Always true:
//! 1. Statements are the same text for both, with `$1` placeholders; only the migrations differ, and what is written or read for
//!    many at once. Numbers are BIGINT, booleans 0 or 1, times milliseconds since 1970, everything else is text.
//! 2. A database that a newer program has changed is refused; an older one is brought up to date when it is opened.
//! 3. On SQLite whoever writes holds the [`Pen`], in the order they asked: a writer never waits in SQLite itself, where the
//!    order is chance.

pub mod copy;
mod error;
mod examine;
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
pub use self::examine::{DatabaseInspection, MIN_POSTGRES_VERSION, inspect};
pub(crate) use self::open::MESSAGE_WRITER_CONNECTIONS;
pub use self::options::{DatabaseOptions, DatabaseUrl, DatabaseUrlError, Synchronous};
pub use self::transaction::WriteTransaction;

/// A statement or block that is written once and compiled for each kind of database:
/// `on!(database.reader(), pool => sqlx::query(SQL).bind(id).fetch_one(pool).await)`.
macro_rules! on {
    ($either:expr, $it:pat => $body:expr) => {
        match $either {
            $crate::database::Either::Sqlite($it) => $body,
            $crate::database::Either::Postgres($it) => $body,
        }
    };
}
pub(crate) use on;

/// A statement that changes rows all by itself, in one round trip where the database is a server:
/// `change!(database, c => sqlx::query(SQL).bind(id).execute(c).await?.rows_affected())`.
macro_rules! write_statement {
    ($database:expr, $it:ident => $body:expr) => {
        match $database.pools() {
            // One statement is a transaction.
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

/// A number for a row; what is beyond every message and moment is as good as the largest.
pub(crate) fn to_db_integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A number of a row, which is never negative.
pub(crate) fn from_db_integer(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

/// One thing for SQLite and another one for PostgreSQL.
#[derive(Debug, Clone, Copy)]
pub enum Either<S, P> {
    /// For SQLite.
    Sqlite(S),
    /// For PostgreSQL.
    Postgres(P),
}

/// The right to write to SQLite.
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

/// The connections to a SQLite file.
pub(crate) struct Sqlite {
    pub(crate) readers: SqlitePool,
    /// One connection.
    pub(crate) write_pool: SqlitePool,
    pub(crate) path: PathBuf,
    pen: Arc<Mutex<()>>,
}

impl Sqlite {
    /// Waits for the right to write.
    pub(crate) async fn lock_writes(&self) -> SqliteWriteGuard {
        Arc::clone(&self.pen).lock_owned().await
    }

    /// As [`pen`](Self::pen), for a thread that may block.
    pub(crate) fn lock_writes_blocking(&self) -> SqliteWriteGuard {
        Arc::clone(&self.pen).blocking_lock_owned()
    }
}

impl Database {
    /// The random name that was given to it when it was made; the store remembers it.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// What it was opened with.
    pub fn options(&self) -> &DatabaseOptions {
        &self.inner.options
    }

    /// Where single reads go.
    pub fn reader(&self) -> Either<&SqlitePool, &PgPool> {
        match &self.inner.pools {
            Either::Sqlite(sqlite) => Either::Sqlite(&sqlite.readers),
            Either::Postgres(pool) => Either::Postgres(pool),
        }
    }

    /// The pools themselves, for the writers of messages.
    pub(crate) fn pools(&self) -> Either<&Sqlite, &PgPool> {
        match &self.inner.pools {
            Either::Sqlite(sqlite) => Either::Sqlite(sqlite),
            Either::Postgres(pool) => Either::Postgres(pool),
        }
    }

    /// A transaction that may write. Nothing of it is there unless it is committed.
    pub async fn begin(&self) -> Result<WriteTransaction, sqlx::Error> {
        WriteTransaction::begin(self).await
    }

    /// Whether it answers.
    pub async fn ping(&self) -> Result<(), sqlx::Error> {
        on!(self.reader(), pool => sqlx::query("SELECT 1").execute(pool).await.map(drop))
    }

    /// Closes all connections, after what is under way.
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
