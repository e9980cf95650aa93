//! Opens a database for an import, which no server may use meanwhile.
//!
//! Invariants:
//! 1. The mark of an incomplete import is set while no server uses the database. A server that opens the database later
//!    finds the mark and stops.
//! 2. On SQLite, the check and the mark are made under the migration lock, which each server takes when it opens the
//!    file. On PostgreSQL, the mark is set before the servers are counted, so no server opens the database in between.

use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteLockingMode};
use sqlx::{ConnectOptions, Connection};

use super::error::{DatabaseErrorKind, DatabaseOpenError, classify_error};
use super::inspect::{connect_once, to_open_error};
use super::open::{SERVER_APPLICATION, lock_for_migration};
use super::options::{DatabaseOptions, DatabaseUrl};
use super::{Database, for_backend};

/// `application_name` of the PostgreSQL connections of an import.
const IMPORT_APPLICATION: &str = "parlor-import";
/// Timeout for a lock of SQLite. It is short because a server that holds the lock does not release it.
const BUSY_TIMEOUT: Duration = Duration::from_millis(300);

const INSERT_MARK: &str = "INSERT INTO parlor (name, value) VALUES ('import', 'incomplete') ON CONFLICT (name) DO NOTHING";
const DELETE_MARK: &str = "DELETE FROM parlor WHERE name = 'import'";
const COUNT_MARKS: &str = "SELECT COUNT(*) FROM parlor WHERE name = 'import'";
const COUNT_SERVERS: &str = "
    SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1";
const PROBE: &str = "SELECT COUNT(*) FROM sqlite_master";

/// Result of [`Database::open_for_import`].
pub(crate) enum OpenedForImport {
    /// The database is open and marked as incomplete.
    Ready {
        database: Database,
        /// True if an earlier import was not completed.
        resumes: bool,
    },
    /// Servers use the database.
    InUse,
}

impl Database {
    /// Opens a database that no server uses, applies missing migrations and marks the database as incomplete.
    pub(crate) async fn open_for_import(
        options: DatabaseOptions,
    ) -> Result<OpenedForImport, DatabaseOpenError> {
        let url = options.url.to_string();
        let failed = |error| to_open_error(&url, error);
        let _lock = lock_for_migration(&options.url).await?;
        if is_in_use(&options).await.map_err(failed)? {
            return Ok(OpenedForImport::InUse);
        }
        let database = Self::open_pools(options.clone(), IMPORT_APPLICATION).await?;
        let inserted = database.write_mark(INSERT_MARK).await.map_err(failed)?;
        let resumes = inserted == 0;
        let is_postgres = matches!(options.url, DatabaseUrl::Postgres(_));
        if is_postgres && is_in_use(&options).await.map_err(failed)? {
            if !resumes {
                database.write_mark(DELETE_MARK).await.map_err(failed)?;
            }
            database.close().await;
            return Ok(OpenedForImport::InUse);
        }
        Ok(OpenedForImport::Ready { database, resumes })
    }

    /// True if an import into the database was not completed.
    pub(super) async fn has_import_mark(&self) -> Result<bool, sqlx::Error> {
        let marks: i64 = for_backend!(self.reader(), pool => sqlx::query_scalar(COUNT_MARKS).fetch_one(pool).await)?;
        Ok(marks > 0)
    }

    /// Removes the mark of an incomplete import.
    pub(crate) async fn remove_import_mark(&self) -> Result<(), sqlx::Error> {
        self.write_mark(DELETE_MARK).await.map(drop)
    }

    async fn write_mark(&self, statement: &'static str) -> Result<u64, sqlx::Error> {
        let mut tx = self.begin().await?;
        let rows = for_backend!(tx.connection(), c => sqlx::query(statement).execute(c).await?.rows_affected());
        tx.commit().await?;
        Ok(rows)
    }
}

async fn is_in_use(options: &DatabaseOptions) -> Result<bool, sqlx::Error> {
    match &options.url {
        DatabaseUrl::Sqlite(path) if !path.exists() => Ok(false),
        DatabaseUrl::Sqlite(path) => {
            let options = SqliteConnectOptions::new().filename(path);
            let options = options.locking_mode(SqliteLockingMode::Exclusive);
            // Fails if another process has the file open.
            let probed = async {
                let mut connection = options.busy_timeout(BUSY_TIMEOUT).connect().await?;
                sqlx::query(PROBE).fetch_one(&mut connection).await?;
                connection.close().await
            };
            match probed.await {
                Ok(()) => Ok(false),
                Err(error) if classify_error(&error) == DatabaseErrorKind::Conflict => Ok(true),
                Err(error) => Err(error),
            }
        }
        DatabaseUrl::Postgres(address) => {
            let address = address
                .as_ref()
                .clone()
                .application_name(IMPORT_APPLICATION);
            let mut connection = connect_once(&address, options.timeout).await?;
            let servers: i64 = sqlx::query_scalar(COUNT_SERVERS)
                .bind(SERVER_APPLICATION)
                .fetch_one(&mut connection)
                .await?;
            connection.close().await?;
            Ok(servers > 0)
        }
    }
}
