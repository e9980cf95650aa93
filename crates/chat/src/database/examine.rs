//! Looking at a database without changing it: what it is, and how far its migrations have come.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection, SqliteConnection};
use tokio::time::timeout;

use super::error::{Fault, OpenError, fault};
use super::migrations::LATEST;
use super::options::{DatabaseUrl, Options};
use super::{Either, on};

/// The least PostgreSQL.
pub const LEAST_POSTGRES: u32 = 13;

const APPLIED: &str = "SELECT MAX(version) FROM _sqlx_migrations WHERE success";
const ID: &str = "SELECT value FROM parlor WHERE name = 'database'";

/// What was seen of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    /// The name and version of the program that keeps it: `PostgreSQL 15.3`.
    pub keeper: String,
    /// The first part of the version.
    pub major: u32,
    /// The last migration; none if it was never used.
    pub migration: Option<i64>,
    /// Its random name; none if it was never used.
    pub id: Option<String>,
}

impl Examined {
    /// The last migration of this program.
    pub const LATEST: i64 = LATEST;
}

/// Looks at a database. Nothing is written, and no file is made: a file that is not there is `None`.
pub async fn examine(options: &Options) -> Result<Option<Examined>, OpenError> {
    let seen = async {
        match &options.url {
            DatabaseUrl::Sqlite(path) if !path.exists() => Ok(None),
            DatabaseUrl::Sqlite(path) => sqlite(path).await.map(Some),
            DatabaseUrl::Postgres(address) => postgres(address, options.timeout).await.map(Some),
        }
    };
    let seen = timeout(options.timeout, seen).await;
    let seen = seen.unwrap_or_else(|_| Err(late(options.timeout)));
    seen.map_err(|error| unopened(&options.url.to_string(), error))
}

async fn sqlite(path: &std::path::Path) -> Result<Examined, sqlx::Error> {
    let options = SqliteConnectOptions::new().filename(path);
    let connection = options.read_only(true).connect().await?;
    let questions = Questions {
        keeper: "SQLite",
        version: "SELECT sqlite_version()",
        used: "SELECT COUNT(*) FROM sqlite_master WHERE name = 'parlor'",
    };
    look(Either::Sqlite(connection), &questions).await
}

async fn postgres(address: &PgConnectOptions, patience: Duration) -> Result<Examined, sqlx::Error> {
    let connection = connect(address, patience).await?;
    let questions = Questions {
        keeper: "PostgreSQL",
        version: "SHOW server_version",
        used: "SELECT COUNT(to_regclass('parlor'))",
    };
    look(Either::Postgres(connection), &questions).await
}

/// What the two are asked in words of their own.
struct Questions {
    keeper: &'static str,
    version: &'static str,
    used: &'static str,
}

async fn look(
    connection: Either<SqliteConnection, PgConnection>,
    ask: &Questions,
) -> Result<Examined, sqlx::Error> {
    on!(connection, mut connection => {
        let c = &mut connection;
        let version: String = sqlx::query_scalar(ask.version).fetch_one(&mut *c).await?;
        let used: i64 = sqlx::query_scalar(ask.used).fetch_one(&mut *c).await?;
        let (mut migration, mut id) = (None, None);
        if used > 0 {
            migration = sqlx::query_scalar(APPLIED).fetch_one(&mut *c).await?;
            id = sqlx::query_scalar(ID).fetch_optional(c).await?;
        }
        connection.close().await?;
        Ok(Examined {
            major: major(&version),
            keeper: format!("{} {version}", ask.keeper),
            migration,
            id,
        })
    })
}

/// One connection, or the reason why there is none; a pool would try again in silence until its time is over.
pub(super) async fn connect(
    address: &PgConnectOptions,
    patience: Duration,
) -> Result<PgConnection, sqlx::Error> {
    let connecting = timeout(patience, PgConnection::connect_with(address)).await;
    connecting.unwrap_or_else(|_| Err(late(patience)))
}

fn late(patience: Duration) -> sqlx::Error {
    let text = format!("no answer within {} ms", patience.as_millis());
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, text))
}

fn major(version: &str) -> u32 {
    let digits = version.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|it| it.parse().ok()).unwrap_or_default()
}

pub(super) fn unopened(url: &str, source: sqlx::Error) -> OpenError {
    let url = url.to_owned();
    match fault(&source) {
        Fault::Away => OpenError::Away { url, source },
        _ => OpenError::Refused { url, source },
    }
}
