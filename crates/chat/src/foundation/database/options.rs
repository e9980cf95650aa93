//! Address and options of a database.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;

/// Name of the SQLite file in the data folder if the address names none.
const DEFAULT_FILE_NAME: &str = "parlor.db";

/// Address of a database.
#[derive(Clone)]
pub enum DatabaseUrl {
    /// Path of a SQLite file.
    Sqlite(PathBuf),
    /// Address of a PostgreSQL server.
    Postgres(Box<PgConnectOptions>),
}

/// Invalid database address. The error does not contain the password.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseUrlError {
    /// The address is neither that of a SQLite file nor that of a PostgreSQL server.
    #[error("the address starts neither with `sqlite:` nor with `postgres://`")]
    Scheme,
    /// The address is that of a SQLite database in memory.
    #[error(
        "a database in memory is lost when the process ends; name a file, or leave the address empty to use the data folder"
    )]
    Memory,
    /// The address of a PostgreSQL server is invalid.
    #[error("the PostgreSQL address is invalid; write postgres://user:password@host:5432/database")]
    Postgres,
}

impl DatabaseUrl {
    /// Parses an address. An empty address, or `sqlite:` alone, is the file in the data folder.
    pub fn parse(text: &str, data: &Path) -> Result<Self, DatabaseUrlError> {
        if text.is_empty() {
            return Ok(Self::Sqlite(data.join(DEFAULT_FILE_NAME)));
        }
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path {
                "" => Ok(Self::Sqlite(data.join(DEFAULT_FILE_NAME))),
                _ if path.contains(":memory:") || path.contains("mode=memory") => {
                    Err(DatabaseUrlError::Memory)
                }
                path => Ok(Self::Sqlite(PathBuf::from(path))),
            };
        }
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(DatabaseUrlError::Scheme);
        }
        let options = PgConnectOptions::from_str(text).map_err(|_| DatabaseUrlError::Postgres)?;
        Ok(Self::Postgres(Box::new(options)))
    }
}

/// The address without the password.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(options) => {
                let (host, port) = (options.get_host(), options.get_port());
                let database = options.get_database().unwrap_or_default();
                write!(f, "postgres://{host}:{port}/{database}")
            }
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// When SQLite acknowledges a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// When the commit is on disk. A power failure loses no commit.
    #[default]
    Full,
    /// When the operating system has the data. A power failure may lose the last commits, a crash of the process loses
    /// none.
    Normal,
}

/// Options of a database.
#[derive(Debug, Clone)]
pub struct DatabaseOptions {
    /// Address of the database.
    pub url: DatabaseUrl,
    /// Size of the read pool (SQLite), or of the pool for everything but messages (PostgreSQL).
    pub max_connections: u32,
    /// Timeout of a statement, and of the wait for a connection.
    pub timeout: Duration,
    /// When SQLite acknowledges a commit.
    pub synchronous: Synchronous,
}

impl DatabaseOptions {
    /// The default options for the database at `url`.
    pub fn new(url: DatabaseUrl) -> Self {
        Self {
            url,
            max_connections: 8,
            timeout: Duration::from_secs(5),
            synchronous: Synchronous::Full,
        }
    }
}
