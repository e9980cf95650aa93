//! Database errors and their categories.
//!
//! Invariant: an error whose cause is not known counts as rejected, which is reported as a bug and not retried.

use std::path::PathBuf;

use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;

use super::migrations::LATEST_MIGRATION;

/// Why a database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseOpenError {
    /// The database is unavailable. Opening it later may succeed.
    #[error("the database {url} is unavailable: {source}")]
    Unavailable {
        /// Address of the database.
        url: String,
        /// Error of the database driver.
        #[source]
        source: sqlx::Error,
    },
    /// The database rejected the connection or a statement.
    #[error("the database {url} cannot be opened: {source}")]
    Rejected {
        /// Address of the database.
        url: String,
        /// Error of the database driver.
        #[source]
        source: sqlx::Error,
    },
    /// A newer version of Parlor has migrated the database.
    #[error(
        "the database {url} has migration {found}, but this program knows migrations up to {} only; run the newer version of Parlor that migrated it",
        LATEST_MIGRATION
    )]
    MigratedByNewerVersion {
        /// Address of the database.
        url: String,
        /// Last migration of the database.
        found: i64,
    },
    /// The database is an incomplete copy of another one.
    #[error(
        "the database {url} is an incomplete copy; run `parlor migrate-store` again to resume it"
    )]
    CopyIncomplete {
        /// Address of the database.
        url: String,
    },
    /// An import into the database was not completed.
    #[error(
        "the database {url} contains an incomplete import; run `parlor import` again with the same file to complete it"
    )]
    ImportIncomplete {
        /// Address of the database.
        url: String,
    },
    /// A migration failed, or the text of an applied migration has changed.
    #[error("the database {url} cannot be migrated: {source}")]
    Migration {
        /// Address of the database.
        url: String,
        /// Error of the migration.
        #[source]
        source: MigrateError,
    },
    /// The lock file of a SQLite database cannot be locked.
    #[error("the lock file {} cannot be locked: {source}", path.display())]
    LockFile {
        /// Path of the lock file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The folder of a SQLite database cannot be created.
    #[error("the folder {} cannot be created: {source}", folder.display())]
    CreateFolder {
        /// Path of the folder.
        folder: PathBuf,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
}

/// Category of a database error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseErrorKind {
    /// The database is unavailable; a later attempt may succeed.
    Unavailable,
    /// The disk of the database is full.
    Full,
    /// Two transactions conflict; an immediate retry may succeed.
    Conflict,
    /// A unique constraint is violated.
    UniqueViolation,
    /// The database rejected the statement, which is a bug of this program.
    Rejected,
}

/// Category of an error.
pub fn classify_error(error: &sqlx::Error) -> DatabaseErrorKind {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::Protocol(_) => DatabaseErrorKind::Unavailable,
        sqlx::Error::Database(error) => classify_reported_error(error.as_ref()),
        _ => DatabaseErrorKind::Rejected,
    }
}

/// Category of an extended SQLite result code.
pub(crate) fn classify_sqlite_code(code: i32) -> DatabaseErrorKind {
    // The lower byte is the primary result code.
    match code & 0xff {
        5 | 6 => DatabaseErrorKind::Conflict,
        13 => DatabaseErrorKind::Full,
        // An I/O error; a file that cannot be opened, or that the system has made read-only.
        8 | 10 | 14 => DatabaseErrorKind::Unavailable,
        _ => DatabaseErrorKind::Rejected,
    }
}

fn classify_reported_error(error: &dyn DatabaseError) -> DatabaseErrorKind {
    if error.is_unique_violation() {
        return DatabaseErrorKind::UniqueViolation;
    }
    let code = error.code().unwrap_or_default();
    if error
        .try_downcast_ref::<sqlx::sqlite::SqliteError>()
        .is_some()
    {
        return classify_sqlite_code(code.parse().unwrap_or_default());
    }
    match &*code {
        "40001" | "40P01" => DatabaseErrorKind::Conflict,
        "53100" | "53200" => DatabaseErrorKind::Full,
        // Shutdown, crash, startup, too many connections, read-only after a failover, statement timeout, timeout of an
        // idle transaction.
        "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "25006" | "57014" | "25P03" => {
            DatabaseErrorKind::Unavailable
        }
        code if code.starts_with("08") || code.starts_with("58") => DatabaseErrorKind::Unavailable,
        _ => DatabaseErrorKind::Rejected,
    }
}
