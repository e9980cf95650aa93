//! Errors of imports and exports.

use std::fmt;

use crate::api::error::Error;
use crate::database::DatabaseOpenError;
use crate::database::copy::DatabaseCopyError;
use crate::ids::InvalidId;

/// Why a line of a file cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineProblem {
    /// Number of the line, from 1; 0 before it is known.
    pub line: u64,
    /// Name of the field; `None` if the problem concerns the whole line.
    pub field: Option<String>,
    /// Description of the problem, with the correction.
    pub text: String,
}

/// Result of a part of a line.
pub(super) type LineResult<T> = Result<T, LineProblem>;

impl LineProblem {
    pub(super) fn new(field: &str, text: impl Into<String>) -> Self {
        Self {
            line: 0,
            field: Some(field.to_owned()),
            text: text.into(),
        }
    }

    pub(super) fn of_line(text: impl Into<String>) -> Self {
        Self {
            line: 0,
            field: None,
            text: text.into(),
        }
    }

    pub(super) fn at(self, line: u64) -> Self {
        Self { line, ..self }
    }

    /// The problem of an identifier.
    pub(super) fn of_id(field: &'static str) -> impl Fn(InvalidId) -> Self {
        move |error| Self::new(field, error.to_string())
    }

    /// The problem that an operation reports for the same value.
    pub(super) fn of_error(field: &'static str) -> impl Fn(Error) -> Self {
        move |error| Self::new(field, error.to_string())
    }
}

impl fmt::Display for LineProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(field) = &self.field {
            write!(f, ", field `{field}`")?;
        }
        write!(f, ": {}", self.text)
    }
}

/// Why a database cannot be exported, or cannot be imported into.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The database cannot be opened for an import.
    #[error(transparent)]
    Open(#[from] DatabaseOpenError),
    /// The database cannot be read.
    #[error(transparent)]
    Read(#[from] DatabaseCopyError),
    /// Servers use the database.
    #[error(
        "the database {0} is in use; stop every server that uses it, then run the import again"
    )]
    InUse(String),
    /// The database contains an import that was not completed.
    #[error(
        "the database {0} contains an incomplete import; run `parlor import` again with the same file to complete it"
    )]
    ImportIncomplete(String),
    /// A statement failed.
    #[error("a statement on the database failed: {0}")]
    Statement(#[from] sqlx::Error),
    /// The store belongs to another database, or its caches cannot be updated.
    #[error("the store cannot be used; correct that and run the import again: {0}")]
    Store(#[source] Error),
    /// The file cannot be read or written.
    #[error("the file cannot be read or written: {0}")]
    File(#[from] std::io::Error),
}

/// Why a page was not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A line does not fit to the lines before it or to the database. Nothing of its page was written.
    #[error("{0}")]
    Line(LineProblem),
    /// The database failed.
    #[error(transparent)]
    Transfer(#[from] TransferError),
}

impl From<LineProblem> for ImportError {
    fn from(problem: LineProblem) -> Self {
        Self::Line(problem)
    }
}

impl From<sqlx::Error> for ImportError {
    fn from(error: sqlx::Error) -> Self {
        Self::Transfer(error.into())
    }
}
