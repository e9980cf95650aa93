//! Opens both sides of a copy.
//!
//! Invariant: before anything is written, the target is known to be empty or an incomplete copy of this source.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteLockingMode, SqlitePoolOptions};
use sqlx::{PgPool, SqlitePool};

use super::super::inspect::{connect_once, inspect, to_open_error};
use super::super::open::migrate;
use super::super::{
    DatabaseErrorKind, DatabaseInspection, DatabaseOpenError, DatabaseOptions, DatabaseUrl,
    PerBackend, classify_error, for_backend, migrations,
};
use super::rows::{self, CopyPool};
use super::{CopyMode, CopyProgress, DatabaseCopy, DatabaseCopyError, TABLES, incomplete_copy_id};

/// Timeout for a lock of SQLite. It is short because a server that holds the lock does not release it.
const BUSY_TIMEOUT: Duration = Duration::from_millis(300);

const INSERT_DATABASE_ID: &str = "INSERT INTO parlor (name, value) VALUES ('database', $1)";
const COUNT_CONNECTED_SERVERS: &str = "
    SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'parlor'";
const PROBE: &str = "SELECT COUNT(*) FROM parlor";

pub(super) async fn open(
    from: &DatabaseOptions,
    to: &DatabaseOptions,
    mode: CopyMode,
    allow_in_use: bool,
) -> Result<DatabaseCopy, DatabaseCopyError> {
    let (source_url, target_url) = (from.url.to_string(), to.url.to_string());
    if source_url == target_url {
        return Err(DatabaseCopyError::SameDatabase(source_url));
    }
    let id = source_id(from).await?;
    let incomplete_id = incomplete_copy_id(&id);
    let inspected = inspect(to).await?;
    let state = match inspected.as_ref().and_then(|it| it.id.as_deref()) {
        None => CopyProgress::NotStarted,
        Some(found) if found == incomplete_id => CopyProgress::InProgress,
        Some(found) if found == id => CopyProgress::Complete,
        Some(found) => {
            let found = found.to_owned();
            return Err(DatabaseCopyError::TargetOfOtherInstallation {
                url: target_url,
                found,
            });
        }
    };
    match (mode, state) {
        (CopyMode::Restart, CopyProgress::Complete) => {
            return Err(DatabaseCopyError::TargetComplete(target_url));
        }
        (CopyMode::Verify, CopyProgress::NotStarted) => {
            return Err(DatabaseCopyError::TargetEmpty(target_url));
        }
        (CopyMode::DryRun, _) | (_, CopyProgress::NotStarted) => {}
        (_, CopyProgress::InProgress | CopyProgress::Complete) => {
            check_migration(inspected.as_ref(), &target_url)?;
        }
    }
    let source = open_source(from, &source_url, allow_in_use).await?;
    let target = match (mode, state) {
        (CopyMode::DryRun, CopyProgress::NotStarted) => None,
        _ => Some(open_target(to, &target_url, state, &incomplete_id).await?),
    };
    if let (CopyMode::Restart, Some(target)) = (mode, &target) {
        let cleared = rows::delete_rows(target, TABLES.iter().rev()).await;
        cleared.map_err(|error| to_open_error(&target_url, error))?;
    }
    Ok(DatabaseCopy {
        id,
        state,
        source,
        source_url,
        target,
        target_url,
    })
}

/// Id of the source database.
async fn source_id(from: &DatabaseOptions) -> Result<String, DatabaseCopyError> {
    let url = from.url.to_string();
    let inspected = inspect(from).await?;
    let Some(id) = inspected.as_ref().and_then(|it| it.id.clone()) else {
        return Err(DatabaseCopyError::SourceMissing(url));
    };
    if super::is_incomplete_copy_id(&id) {
        return Err(DatabaseCopyError::SourceIncomplete(url));
    }
    check_migration(inspected.as_ref(), &url)?;
    Ok(id)
}

/// Checks that the database has the last migration of this program, and therefore the same tables.
fn check_migration(
    inspected: Option<&DatabaseInspection>,
    url: &str,
) -> Result<(), DatabaseCopyError> {
    let found = inspected
        .and_then(|it| it.last_migration)
        .unwrap_or_default();
    let known = DatabaseInspection::LATEST_MIGRATION;
    if found == known {
        return Ok(());
    }
    let url = url.to_owned();
    Err(DatabaseCopyError::MigrationMismatch { url, found, known })
}

/// Opens a database for reading, while servers may use it. Its tables are those of this program.
pub(crate) async fn open_for_reading(
    options: &DatabaseOptions,
) -> Result<CopyPool, DatabaseCopyError> {
    source_id(options).await?;
    open_source(options, &options.url.to_string(), true).await
}

async fn open_source(
    from: &DatabaseOptions,
    url: &str,
    allow_in_use: bool,
) -> Result<CopyPool, DatabaseCopyError> {
    match &from.url {
        DatabaseUrl::Sqlite(path) => {
            let options = SqliteConnectOptions::new().filename(path);
            let options = options.pragma("query_only", "1").busy_timeout(BUSY_TIMEOUT);
            let options = match allow_in_use {
                true => options,
                // Fails if another process has the file open, and keeps other processes from opening it.
                false => options.locking_mode(SqliteLockingMode::Exclusive),
            };
            let pool = open_sqlite(options)
                .await
                .map_err(|error| to_source_error(url, error))?;
            let probed = sqlx::query(PROBE).fetch_one(&pool).await;
            probed.map_err(|error| to_source_error(url, error))?;
            Ok(PerBackend::Sqlite(pool))
        }
        DatabaseUrl::Postgres(address) => {
            let address = address.as_ref().clone();
            let address = address.options([("default_transaction_read_only", "on")]);
            let pool = open_postgres(address, from.timeout).await;
            let pool = pool.map_err(|error| to_open_error(url, error))?;
            let servers = sqlx::query_scalar(COUNT_CONNECTED_SERVERS)
                .fetch_one(&pool)
                .await;
            let servers: i64 = servers.map_err(|error| to_open_error(url, error))?;
            if servers > 0 && !allow_in_use {
                return Err(DatabaseCopyError::SourceInUse(url.to_owned()));
            }
            Ok(PerBackend::Postgres(pool))
        }
    }
}

fn to_source_error(url: &str, error: sqlx::Error) -> DatabaseCopyError {
    match classify_error(&error) {
        DatabaseErrorKind::Conflict => DatabaseCopyError::SourceInUse(url.to_owned()),
        _ => to_open_error(url, error).into(),
    }
}

/// Opens the target. An empty one gets its tables and the id of an incomplete copy.
async fn open_target(
    to: &DatabaseOptions,
    url: &str,
    state: CopyProgress,
    incomplete_id: &str,
) -> Result<CopyPool, DatabaseOpenError> {
    let unopened = |error| to_open_error(url, error);
    let pool = match &to.url {
        DatabaseUrl::Sqlite(path) => {
            let options = SqliteConnectOptions::new().filename(path);
            let options = options.create_if_missing(true).foreign_keys(false);
            let options = options
                .journal_mode(SqliteJournalMode::Wal)
                .busy_timeout(BUSY_TIMEOUT);
            PerBackend::Sqlite(open_sqlite(options).await.map_err(unopened)?)
        }
        DatabaseUrl::Postgres(address) => {
            let pool = open_postgres(address.as_ref().clone(), to.timeout).await;
            PerBackend::Postgres(pool.map_err(unopened)?)
        }
    };
    if state == CopyProgress::NotStarted {
        match &pool {
            PerBackend::Sqlite(pool) => migrate(&migrations::sqlite(), pool, url).await?,
            PerBackend::Postgres(pool) => migrate(&migrations::postgres(), pool, url).await?,
        }
        let marked = for_backend!(&pool, pool => sqlx::query(INSERT_DATABASE_ID).bind(incomplete_id).execute(pool).await.map(drop));
        marked.map_err(unopened)?;
    }
    Ok(pool)
}

/// One connection: its lock stays held, and pages arrive in order.
async fn open_sqlite(options: SqliteConnectOptions) -> Result<SqlitePool, sqlx::Error> {
    let pool = SqlitePoolOptions::new().max_connections(1);
    let pool = pool.idle_timeout(None).max_lifetime(None);
    pool.connect_with(options).await
}

/// One connection, without a statement timeout.
async fn open_postgres(
    address: PgConnectOptions,
    timeout: Duration,
) -> Result<PgPool, sqlx::Error> {
    let address = address.application_name("parlor-migrate");
    // A connection pool would retry silently until its timeout.
    drop(connect_once(&address, timeout).await?);
    let pool = PgPoolOptions::new().max_connections(1);
    pool.acquire_timeout(timeout).connect_with(address).await
}
