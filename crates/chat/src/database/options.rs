//! Where a database is, and how it is used.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;

/// The file in the data folder where no other is named.
const DEFAULT_FILE_NAME: &str = "parlor.db";

/// Where a database is.
#[derive(Clone)]
pub enum DatabaseUrl {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL server.
    Postgres(Box<PgConnectOptions>),
}

/// An address that cannot be one. Does not repeat a password.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseUrlError {
    /// Neither kind.
    #[error("the address starts neither with `sqlite:` nor with `postgres://`")]
    Scheme,
    /// SQLite in memory.
    #[error(
        "a database in memory is lost when the process ends; name a file, or leave the address empty to use the data folder"
    )]
    Memory,
    /// PostgreSQL, but not an address.
    #[error("the PostgreSQL address is invalid; write postgres://user:password@host:5432/database")]
    Postgres,
}

impl DatabaseUrl {
    /// Reads an address. An empty one, or `sqlite:` alone, is the file in the data folder.
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

/// Without the password.
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

/// When a commit of SQLite counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// When it is on disk, also for a power cut.
    #[default]
    Full,
    /// When the operating system has it: a power cut may lose the last commits, a crash of the process none.
    Normal,
}

/// How a database is opened and used.
#[derive(Debug, Clone)]
pub struct DatabaseOptions {
    /// Where it is.
    pub url: DatabaseUrl,
    /// Connections for reading (SQLite), or for everything but messages (PostgreSQL).
    pub max_connections: u32,
    /// How long a statement, or the wait for a connection, may take.
    pub timeout: Duration,
    /// What a commit of SQLite waits for.
    pub synchronous: Synchronous,
}

impl DatabaseOptions {
    /// The usual way to use the database at `url`.
    pub fn new(url: DatabaseUrl) -> Self {
        Self {
            url,
            max_connections: 8,
            timeout: Duration::from_secs(5),
            synchronous: Synchronous::Full,
        }
    }
}
