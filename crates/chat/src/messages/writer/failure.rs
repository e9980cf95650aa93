//! Why a commit failed, told to everybody whose message was in it.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::database::{DatabaseErrorKind, classify_error, classify_sqlite_code};
use crate::error::Error;

/// A failed commit.
#[derive(Debug)]
pub(super) struct CommitError {
    pub fault: DatabaseErrorKind,
    pub source: SharedError,
}

/// An error that many are told. It says what the database said and not to what: the details hold what people write.
#[derive(Clone)]
pub(super) struct SharedError(Arc<dyn StdError + Send + Sync>);

impl CommitError {
    /// Whether the messages may be to blame: then some of them may be written.
    pub fn is_statement_refused(&self) -> bool {
        matches!(
            self.fault,
            DatabaseErrorKind::Rejected | DatabaseErrorKind::UniqueViolation
        )
    }

    /// What one of the senders is told.
    pub fn to_error(&self) -> Error {
        let source = sqlx::Error::AnyDriverError(Box::new(self.source.clone()));
        match self.fault {
            DatabaseErrorKind::Unavailable | DatabaseErrorKind::Conflict => {
                Error::DatabaseUnavailable(source)
            }
            DatabaseErrorKind::Full => Error::DatabaseFull(source),
            DatabaseErrorKind::UniqueViolation | DatabaseErrorKind::Rejected => {
                Error::DatabaseRejected(source)
            }
        }
    }
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl StdError for SharedError {}

impl From<sqlx::Error> for CommitError {
    fn from(error: sqlx::Error) -> Self {
        Self {
            fault: classify_error(&error),
            source: SharedError(Arc::new(error)),
        }
    }
}

impl From<rusqlite::Error> for CommitError {
    fn from(error: rusqlite::Error) -> Self {
        let fault = match &error {
            rusqlite::Error::SqliteFailure(error, _) => classify_sqlite_code(error.extended_code),
            _ => DatabaseErrorKind::Rejected,
        };
        Self {
            fault,
            source: SharedError(Arc::new(error)),
        }
    }
}

/// The message waited too long for its turn.
pub(super) fn queue_timeout() -> Error {
    Error::DatabaseUnavailable(sqlx::Error::PoolTimedOut)
}

/// The commit came to no end.
pub(super) fn writer_crashed() -> Error {
    Error::DatabaseUnavailable(sqlx::Error::WorkerCrashed)
}
