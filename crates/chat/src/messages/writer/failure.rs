//! Why a commit failed, told to everybody whose message was in it.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::database::{Fault, fault, sqlite_fault};
use crate::error::Error;

/// A failed commit.
#[derive(Debug)]
pub(super) struct Failure {
    pub fault: Fault,
    pub source: Shared,
}

/// An error that many are told. It says what the database said and not to what: the details hold what people write.
#[derive(Clone)]
pub(super) struct Shared(Arc<dyn StdError + Send + Sync>);

impl Failure {
    /// Whether the messages may be to blame: then some of them may be written.
    pub fn is_refused(&self) -> bool {
        matches!(self.fault, Fault::Refused | Fault::Exists)
    }

    /// What one of the senders is told.
    pub fn error(&self) -> Error {
        let source = sqlx::Error::AnyDriverError(Box::new(self.source.clone()));
        match self.fault {
            Fault::Away | Fault::Conflict => Error::DatabaseUnavailable(source),
            Fault::Full => Error::DatabaseFull(source),
            Fault::Exists | Fault::Refused => Error::Statement(source),
        }
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl StdError for Shared {}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self {
            fault: fault(&error),
            source: Shared(Arc::new(error)),
        }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        let fault = match &error {
            rusqlite::Error::SqliteFailure(error, _) => sqlite_fault(error.extended_code),
            _ => Fault::Refused,
        };
        Self {
            fault,
            source: Shared(Arc::new(error)),
        }
    }
}

/// The message waited too long for its turn.
pub(super) fn late() -> Error {
    Error::DatabaseUnavailable(sqlx::Error::PoolTimedOut)
}

/// The commit came to no end.
pub(super) fn crashed() -> Error {
    Error::DatabaseUnavailable(sqlx::Error::WorkerCrashed)
}
