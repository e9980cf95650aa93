//! Error of a commit, reported to every sender in the batch.
//!
//! Invariants:
//! 1. The text of an error contains no text of a message.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::api::error::Error;
use crate::database::{Database, DatabaseErrorKind, classify_error, classify_sqlite_code};

/// Error of a commit with its classification.
#[derive(Debug)]
pub(super) struct CommitError {
    pub fault: DatabaseErrorKind,
    pub source: SharedError,
}

/// Cloneable error that shows only the message of the database. The details of a database error can contain message
/// texts.
#[derive(Clone)]
pub(super) struct SharedError(Arc<dyn StdError + Send + Sync>);

impl CommitError {
    /// Whether the database refused a statement. Then one message of the batch may be the cause, and the others can be
    /// written.
    pub fn is_statement_refused(&self) -> bool {
        matches!(
            self.fault,
            DatabaseErrorKind::Rejected | DatabaseErrorKind::UniqueViolation
        )
    }

    /// Records the result of a commit in the health of the database.
    pub fn record<T>(committed: &Result<Vec<T>, Self>, database: &Database) {
        match committed {
            // All messages of the batch had waited too long, so nothing was written.
            Ok(outcomes) if outcomes.is_empty() => {}
            Ok(_) => database.record_write(&Ok(())),
            Err(failure) => database.record_failed_write(failure.fault, &failure.source),
        }
    }

    /// Returns the error for one sender.
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

/// Error: the message waited too long in the queue.
pub(super) fn queue_timeout() -> Error {
    Error::DatabaseUnavailable(sqlx::Error::PoolTimedOut)
}

/// Error: the writer panicked during the commit.
pub(super) fn writer_crashed() -> Error {
    Error::DatabaseUnavailable(sqlx::Error::WorkerCrashed)
}
