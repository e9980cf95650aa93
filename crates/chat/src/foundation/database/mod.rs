//! The SQL database, which is the source of truth: a SQLite file in the data folder, or PostgreSQL for several nodes.
//!
//! Invariants:
//! 1. Both backends run the same statements, with `$1` placeholders. Only migrations and batch statements differ.
//!    Numbers are BIGINT, booleans 0 or 1, timestamps milliseconds since 1970, everything else is text.
//! 2. [`Database::open`] applies missing migrations. It rejects a database that a newer version has migrated.
//! 3. Every write to SQLite holds the write lock ([`SqliteWriteGuard`]), which is first come, first served. Writers
//!    therefore never wait for SQLite's own lock, which has no order. The wait has a timeout.

mod backend;
mod block_with_timeout;
pub mod copy;
mod error;
mod inspect;
mod migrations;
mod open;
mod open_for_import;
mod options;
mod transaction;
mod write_health;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::{PgPool, SqlitePool};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

use crate::outbox::Acknowledgements;

pub use self::backend::PerBackend;
pub(crate) use self::backend::{
    for_backend, from_db_integer, read_statement, to_db_integer, tx_statement, write_statement,
};
use self::block_with_timeout::block_with_timeout;
pub(crate) use self::error::classify_sqlite_code;
pub use self::error::{DatabaseErrorKind, DatabaseOpenError, classify_error};
pub use self::inspect::{DatabaseInspection, MIN_POSTGRES_VERSION, inspect};
pub(crate) use self::open::MESSAGE_WRITER_CONNECTIONS;
pub(crate) use self::open_for_import::OpenedForImport;
pub use self::options::{DatabaseOptions, DatabaseUrl, DatabaseUrlError, Synchronous};
pub use self::transaction::WriteTransaction;
pub(crate) use self::transaction::commit_timeout;
use self::write_health::WriteHealth;

/// Guard of the SQLite write lock.
pub type SqliteWriteGuard = OwnedMutexGuard<()>;

/// An open database. Cloning copies a pointer.
#[derive(Clone)]
pub struct Database {
    inner: Arc<DatabaseInner>,
}

struct DatabaseInner {
    pools: PerBackend<SqlitePools, PgPool>,
    id: String,
    options: DatabaseOptions,
    write_health: WriteHealth,
    acknowledgements: Acknowledgements,
}

/// The connection pools of a SQLite file.
pub(crate) struct SqlitePools {
    pub(crate) read_pool: SqlitePool,
    /// Pool with one connection.
    pub(crate) write_pool: SqlitePool,
    pub(crate) path: PathBuf,
    write_lock: Arc<Mutex<()>>,
    lock_timeout: Duration,
}

impl SqlitePools {
    /// Waits for the write lock, at most for `database.timeout`.
    pub(crate) async fn lock_writes(&self) -> Result<SqliteWriteGuard, sqlx::Error> {
        let lock = Arc::clone(&self.write_lock).lock_owned();
        let locked = timeout(self.lock_timeout, lock).await;
        locked.map_err(|_| write_lock_timeout())
    }

    /// As [`lock_writes`](Self::lock_writes), for a thread that may block.
    pub(crate) fn lock_writes_blocking(&self) -> Result<SqliteWriteGuard, sqlx::Error> {
        let lock = Arc::clone(&self.write_lock).lock_owned();
        let locked = block_with_timeout(self.lock_timeout, lock);
        locked.ok_or_else(write_lock_timeout)
    }
}

/// Error: another writer held the write lock for too long. It counts as unavailable.
fn write_lock_timeout() -> sqlx::Error {
    let text = "another writer has held the write lock of the SQLite file for longer than `database.timeout`";
    sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text))
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
    pub fn reader(&self) -> PerBackend<&SqlitePool, &PgPool> {
        match &self.inner.pools {
            PerBackend::Sqlite(sqlite) => PerBackend::Sqlite(&sqlite.read_pool),
            PerBackend::Postgres(pool) => PerBackend::Postgres(pool),
        }
    }

    /// The pools of the backend, for the message writer.
    pub(crate) fn pools(&self) -> PerBackend<&SqlitePools, &PgPool> {
        match &self.inner.pools {
            PerBackend::Sqlite(sqlite) => PerBackend::Sqlite(sqlite),
            PerBackend::Postgres(pool) => PerBackend::Postgres(pool),
        }
    }

    /// Entries of the outbox that have been applied and can be deleted.
    pub(crate) fn acknowledgements(&self) -> &Acknowledgements {
        &self.inner.acknowledgements
    }

    /// Checks that the database responds.
    pub async fn ping(&self) -> Result<(), sqlx::Error> {
        for_backend!(self.reader(), pool => sqlx::query("SELECT 1").execute(pool).await.map(drop))
    }

    /// Closes all connections after the running statements have finished.
    pub async fn close(&self) {
        match &self.inner.pools {
            PerBackend::Sqlite(sqlite) => {
                sqlite.read_pool.close().await;
                sqlite.write_pool.close().await;
            }
            PerBackend::Postgres(pool) => pool.close().await,
        }
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({})", self.inner.options.url)
    }
}
