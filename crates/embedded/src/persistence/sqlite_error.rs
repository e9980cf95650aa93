//! Classes of SQLite errors.

use rusqlite::{Error, ErrorCode, ffi};

/// Why a file could not be loaded.
#[derive(Debug)]
pub enum StoreLoadError {
    /// The content is corrupt. The text says where.
    Corrupt(String),
    /// The file has this format version, which is newer than this version of Parlor supports.
    NewerFormat(i64),
    /// SQLite failed for a reason outside of the file.
    Sqlite(Error),
}

impl From<Error> for StoreLoadError {
    fn from(error: Error) -> Self {
        match &error {
            Error::SqliteFailure(code, _) if is_corruption(*code) => {
                Self::Corrupt(error.to_string())
            }
            Error::SqliteFailure(..) => Self::Sqlite(error),
            // The queries are fixed and fit the tables, so any other error is caused by the content.
            _ => Self::Corrupt(error.to_string()),
        }
    }
}

impl From<rusqlite::types::FromSqlError> for StoreLoadError {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self::Corrupt(error.to_string())
    }
}

fn is_corruption(error: ffi::Error) -> bool {
    let short = error.extended_code == ffi::SQLITE_IOERR_SHORT_READ;
    // A missing table or column is reported as `Unknown`.
    let codes = [
        ErrorCode::DatabaseCorrupt,
        ErrorCode::NotADatabase,
        ErrorCode::Unknown,
        ErrorCode::TooBig,
    ];
    short || codes.contains(&error.code)
}

fn extended_code(error: &Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}

/// Whether an fsync failed. The kernel may have dropped the data and may report success for a second fsync, so nothing
/// that was written since the last successful fsync can be relied on.
pub(crate) fn is_failed_fsync(error: &Error) -> bool {
    matches!(
        extended_code(error),
        Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC)
    )
}

/// Whether a write may succeed later without a repair of the file: the disk is full, it failed for a moment, or the
/// file is busy.
pub(crate) fn is_transient(error: &Error) -> bool {
    let codes = [
        ErrorCode::DiskFull,
        ErrorCode::SystemIoFailure,
        ErrorCode::DatabaseBusy,
    ];
    !is_failed_fsync(error)
        && error
            .sqlite_error()
            .is_some_and(|error| codes.contains(&error.code))
}
