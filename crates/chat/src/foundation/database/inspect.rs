//! Reads version, migration and id of a database.
//!
//! Invariant: nothing is written, and no file is created.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection, SqliteConnection};
use tokio::time::timeout;

use super::error::{DatabaseErrorKind, DatabaseOpenError, classify_error};
use super::migrations::LATEST_MIGRATION;
use super::open::SELECT_DATABASE_ID;
use super::options::{DatabaseOptions, DatabaseUrl};
use super::{PerBackend, for_backend};

/// Oldest supported major version of PostgreSQL.
pub const MIN_POSTGRES_VERSION: u32 = 13;

const SELECT_LAST_MIGRATION: &str = "SELECT MAX(version) FROM _sqlx_migrations WHERE success";

/// State of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseInspection {
    /// Name and version of the database software: `PostgreSQL 15.3`.
    pub server_version: String,
    /// Major version of the database software.
    pub major_version: u32,
    /// Number of the last applied migration; `None` if Parlor has never used the database.
    pub last_migration: Option<i64>,
    /// Id of the database; `None` if Parlor has never used the database.
    pub id: Option<String>,
}

impl DatabaseInspection {
    /// The last migration of this program.
    pub const LATEST_MIGRATION: i64 = LATEST_MIGRATION;
}

/// Inspects a database. Nothing is written and no file is created; `None` if a SQLite file does not exist.
pub async fn inspect(
    options: &DatabaseOptions,
) -> Result<Option<DatabaseInspection>, DatabaseOpenError> {
    let seen = async {
        match &options.url {
            DatabaseUrl::Sqlite(path) if !path.exists() => Ok(None),
            DatabaseUrl::Sqlite(path) => sqlite(path).await.map(Some),
            DatabaseUrl::Postgres(address) => postgres(address, options.timeout).await.map(Some),
        }
    };
    let seen = timeout(options.timeout, seen).await;
    let seen = seen.unwrap_or_else(|_| Err(timeout_error(options.timeout)));
    seen.map_err(|error| to_open_error(&options.url.to_string(), error))
}

async fn sqlite(path: &std::path::Path) -> Result<DatabaseInspection, sqlx::Error> {
    let options = SqliteConnectOptions::new().filename(path);
    let connection = options.read_only(true).connect().await?;
    let questions = InspectionQueries {
        software: "SQLite",
        version: "SELECT sqlite_version()",
        is_initialized: "SELECT COUNT(*) FROM sqlite_master WHERE name = 'parlor'",
    };
    run_inspection(PerBackend::Sqlite(connection), &questions).await
}

async fn postgres(
    address: &PgConnectOptions,
    max_wait: Duration,
) -> Result<DatabaseInspection, sqlx::Error> {
    let connection = connect_once(address, max_wait).await?;
    let questions = InspectionQueries {
        software: "PostgreSQL",
        version: "SHOW server_version",
        is_initialized: "SELECT COUNT(to_regclass('parlor'))",
    };
    run_inspection(PerBackend::Postgres(connection), &questions).await
}

/// Statements that differ between the backends.
struct InspectionQueries {
    software: &'static str,
    version: &'static str,
    is_initialized: &'static str,
}

async fn run_inspection(
    connection: PerBackend<SqliteConnection, PgConnection>,
    ask: &InspectionQueries,
) -> Result<DatabaseInspection, sqlx::Error> {
    for_backend!(connection, mut connection => {
        let c = &mut connection;
        let version: String = sqlx::query_scalar(ask.version).fetch_one(&mut *c).await?;
        let used: i64 = sqlx::query_scalar(ask.is_initialized).fetch_one(&mut *c).await?;
        let (mut last_migration, mut id) = (None, None);
        if used > 0 {
            last_migration = sqlx::query_scalar(SELECT_LAST_MIGRATION).fetch_one(&mut *c).await?;
            id = sqlx::query_scalar(SELECT_DATABASE_ID).fetch_optional(c).await?;
        }
        connection.close().await?;
        Ok(DatabaseInspection {
            major_version: parse_major_version(&version),
            server_version: format!("{} {version}", ask.software),
            last_migration,
            id,
        })
    })
}

/// Opens one connection and returns the reason if that fails. A connection pool would retry silently until its timeout.
pub(super) async fn connect_once(
    address: &PgConnectOptions,
    max_wait: Duration,
) -> Result<PgConnection, sqlx::Error> {
    let connecting = timeout(max_wait, PgConnection::connect_with(address)).await;
    connecting.unwrap_or_else(|_| Err(timeout_error(max_wait)))
}

fn timeout_error(max_wait: Duration) -> sqlx::Error {
    let text = format!("no response within {} ms", max_wait.as_millis());
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, text))
}

fn parse_major_version(version: &str) -> u32 {
    let digits = version.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|it| it.parse().ok()).unwrap_or_default()
}

pub(super) fn to_open_error(url: &str, source: sqlx::Error) -> DatabaseOpenError {
    let url = url.to_owned();
    match classify_error(&source) {
        DatabaseErrorKind::Unavailable => DatabaseOpenError::Unavailable { url, source },
        _ => DatabaseOpenError::Rejected { url, source },
    }
}
