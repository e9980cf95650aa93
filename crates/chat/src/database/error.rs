//! What can be wrong with a database.

use std::path::PathBuf;

use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;

use super::migrations::LATEST;

/// Why a database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseOpenError {
    /// It does not answer; trying again later may help.
    #[error("the database {url} is unavailable: {source}")]
    Unavailable {
        /// Which.
        url: String,
        /// Why.
        #[source]
        source: sqlx::Error,
    },
    /// It refused.
    #[error("the database {url} cannot be opened: {source}")]
    Rejected {
        /// Which.
        url: String,
        /// Why.
        #[source]
        source: sqlx::Error,
    },
    /// A newer program has changed it.
    #[error(
        "the database {url} has migration {found}, but this program knows migrations up to {} only; run the newer version of Parlor that migrated it",
        LATEST
    )]
    MigratedByNewerVersion {
        /// Which.
        url: String,
        /// What it has.
        found: i64,
    },
    /// Somebody began to copy another database into it.
    #[error(
        "the database {url} is an incomplete copy; run `parlor migrate-store` again to resume it"
    )]
    CopyIncomplete {
        /// Which.
        url: String,
    },
    /// A migration failed or was tampered with.
    #[error("the database {url} cannot be migrated: {source}")]
    Migration {
        /// Which.
        url: String,
        /// Why.
        #[source]
        source: MigrateError,
    },
    /// The file that keeps others away cannot be locked.
    #[error("the lock file {} cannot be locked: {source}", path.display())]
    LockFile {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The folder of the file cannot be made.
    #[error("the folder {} cannot be created: {source}", folder.display())]
    CreateFolder {
        /// Which.
        folder: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// What is to be thought of a failed statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseErrorKind {
    /// It does not answer; trying again later helps.
    Unavailable,
    /// It has no room.
    Full,
    /// Two transactions were in each other's way; trying again at once helps.
    Conflict,
    /// A row of this kind is there already.
    UniqueViolation,
    /// It refused the statement, which is a fault of this program.
    Rejected,
}

/// What is to be thought of this error.
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

/// What is to be thought of an extended result code of SQLite.
pub(crate) fn classify_sqlite_code(code: i32) -> DatabaseErrorKind {
    // The lower byte is the kind, the rest says more.
    match code & 0xff {
        5 | 6 => DatabaseErrorKind::Conflict,
        13 => DatabaseErrorKind::Full,
        10 | 14 => DatabaseErrorKind::Unavailable,
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
        // Shutdown, crash, not yet ready, too many connections, read-only after a failover, a statement that took too long,
        // a transaction in which nothing happened for too long.
        "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "25006" | "57014" | "25P03" => {
            DatabaseErrorKind::Unavailable
        }
        code if code.starts_with("08") || code.starts_with("58") => DatabaseErrorKind::Unavailable,
        _ => DatabaseErrorKind::Rejected,
    }
}
