//! What can be wrong with a database.

use std::path::PathBuf;

use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;

use super::migrations::LATEST;

/// Why a database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It does not answer; trying again later may help.
    #[error("the database {url} does not answer: {source}")]
    Away {
        /// Which.
        url: String,
        /// Why.
        #[source]
        source: sqlx::Error,
    },
    /// It refused.
    #[error("the database {url} cannot be opened: {source}")]
    Refused {
        /// Which.
        url: String,
        /// Why.
        #[source]
        source: sqlx::Error,
    },
    /// A newer program has changed it.
    #[error(
        "the database {url} has migration {found}, this program knows those up to {}; run the newer version of Parlor that changed it",
        LATEST
    )]
    Newer {
        /// Which.
        url: String,
        /// What it has.
        found: i64,
    },
    /// Somebody began to copy another database into it.
    #[error(
        "the database {url} is a copy that was not completed; run `parlor migrate-store` again, it goes on where it stopped"
    )]
    Unfinished {
        /// Which.
        url: String,
    },
    /// A migration failed or was tampered with.
    #[error("the database {url} cannot be brought up to date: {source}")]
    Migration {
        /// Which.
        url: String,
        /// Why.
        #[source]
        source: MigrateError,
    },
    /// The file that keeps others away cannot be locked.
    #[error("the file {} cannot be locked: {source}", path.display())]
    Lock {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The folder of the file cannot be made.
    #[error("the folder {} cannot be made: {source}", folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// What is to be thought of a failed statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It does not answer; trying again later helps.
    Away,
    /// It has no room.
    Full,
    /// Two transactions were in each other's way; trying again at once helps.
    Conflict,
    /// A row of this kind is there already.
    Exists,
    /// It refused the statement, which is a fault of this program.
    Refused,
}

/// What is to be thought of this error.
pub fn fault(error: &sqlx::Error) -> Fault {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::Protocol(_) => Fault::Away,
        sqlx::Error::Database(error) => told(error.as_ref()),
        _ => Fault::Refused,
    }
}

/// What is to be thought of an extended result code of SQLite.
pub(crate) fn sqlite_fault(code: i32) -> Fault {
    // The lower byte is the kind, the rest says more.
    match code & 0xff {
        5 | 6 => Fault::Conflict,
        13 => Fault::Full,
        10 | 14 => Fault::Away,
        _ => Fault::Refused,
    }
}

fn told(error: &dyn DatabaseError) -> Fault {
    if error.is_unique_violation() {
        return Fault::Exists;
    }
    let code = error.code().unwrap_or_default();
    if error
        .try_downcast_ref::<sqlx::sqlite::SqliteError>()
        .is_some()
    {
        return sqlite_fault(code.parse().unwrap_or_default());
    }
    match &*code {
        "40001" | "40P01" => Fault::Conflict,
        "53100" | "53200" => Fault::Full,
        // Shutdown, crash, not yet ready, too many connections, read-only after a failover, a statement that took too long,
        // a transaction in which nothing happened for too long.
        "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "25006" | "57014" | "25P03" => {
            Fault::Away
        }
        code if code.starts_with("08") || code.starts_with("58") => Fault::Away,
        _ => Fault::Refused,
    }
}
