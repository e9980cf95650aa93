//! Copies a database into another one, of the same or the other backend.
//!
//! Invariants:
//! 1. The id of the copy is the id of the source with the prefix `copying:` until all rows have been compared. No
//!    server starts on an incomplete copy.
//! 2. Rows are copied in the order of their primary key, one page per transaction. The highest key in the target
//!    therefore shows how far the copy has come, and a resumed copy neither omits nor duplicates rows.
//! 3. The source is not changed. A complete copy, or a database of another installation, is never written to.

mod compare;
mod open;
mod rows;
mod tables;

pub use self::compare::TableComparison;
pub(crate) use self::open::open_for_reading;
pub(crate) use self::rows::{CellRow, CellValue, CopyPool, bind_cells, read_cells};
pub(crate) use self::tables::{Column, ColumnType, placeholder_list, table};
pub use self::tables::{CopyTable, TABLES};
use super::{DatabaseOpenError, DatabaseOptions, PerBackend, for_backend};

/// Prefix of the id of an incomplete copy.
const INCOMPLETE_PREFIX: &str = "copying:";

const UPDATE_DATABASE_ID: &str = "UPDATE parlor SET value = $1 WHERE name = 'database'";

/// The rows were copied with their ids, so PostgreSQL must continue after them. SQLite does so by itself.
const CONTINUE_OUTBOX_IDS: &str = "
    SELECT setval(pg_get_serial_sequence('outbox', 'id'), COALESCE(MAX(id), 0) + 1, false) FROM outbox";

/// True if this is the id of an incomplete copy.
pub fn is_incomplete_copy_id(id: &str) -> bool {
    id.starts_with(INCOMPLETE_PREFIX)
}

/// Id of an incomplete copy of the database with this id.
pub fn incomplete_copy_id(id: &str) -> String {
    format!("{INCOMPLETE_PREFIX}{id}")
}

/// Purpose of [`DatabaseCopy::open`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyMode {
    /// Inspects both databases and changes nothing.
    DryRun,
    /// Copies, or resumes an earlier copy. A complete copy is not changed.
    Copy,
    /// Copies from the beginning: the rows of an incomplete copy are deleted first.
    Restart,
    /// Compares the source with an earlier copy.
    Verify,
}

/// Progress of an earlier copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyProgress {
    /// There is no earlier copy.
    NotStarted,
    /// The earlier copy is incomplete.
    InProgress,
    /// The earlier copy is complete.
    Complete,
}

/// Why a database cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseCopyError {
    /// The source or the target cannot be opened.
    #[error(transparent)]
    Open(#[from] DatabaseOpenError),
    /// There is no source database.
    #[error(
        "there is no database of Parlor at {0}; correct the address, or set the data folder with --data"
    )]
    SourceMissing(String),
    /// The source is itself an incomplete copy.
    #[error("the database {0} is an incomplete copy; copy from the original database")]
    SourceIncomplete(String),
    /// The database has not the migration of this program, so its tables may differ.
    #[error(
        "the database {url} has migration {found}, but this program copies databases with migration {known}; start this version of the server on it once, or use the version that migrated it"
    )]
    MigrationMismatch {
        /// Address of the database.
        url: String,
        /// Last migration of the database.
        found: i64,
        /// Last migration of this program.
        known: i64,
    },
    /// Servers use the source.
    #[error(
        "the database {0} is in use; stop every server that uses it, or copy it anyway with --force"
    )]
    SourceInUse(String),
    /// The target belongs to another installation.
    #[error(
        "the database {url} belongs to another installation (its id is {found}); name an empty database"
    )]
    TargetOfOtherInstallation {
        /// Address of the database.
        url: String,
        /// Id of the database.
        found: String,
    },
    /// Source and target are the same database.
    #[error("source and target are the same database {0}; there is nothing to copy")]
    SameDatabase(String),
    /// The target is a complete copy.
    #[error(
        "the database {0} is already a complete copy and is not overwritten; compare it with --verify, or name an empty database"
    )]
    TargetComplete(String),
    /// There is no copy to compare with.
    #[error("there is no copy in the database {0} yet; make one without --verify")]
    TargetEmpty(String),
    /// A statement failed.
    #[error("a statement on the database {url} failed: {source}")]
    Statement {
        /// Address of the database.
        url: String,
        /// Error of the database driver.
        #[source]
        source: sqlx::Error,
    },
}

/// A running copy from one database into another one.
pub struct DatabaseCopy {
    id: String,
    state: CopyProgress,
    source: CopyPool,
    source_url: String,
    /// `None` in a dry run if there is no earlier copy.
    target: Option<CopyPool>,
    target_url: String,
}

impl DatabaseCopy {
    /// Opens both databases. Unless this is a dry run, an empty target gets its tables and the id of an incomplete
    /// copy. With `allow_in_use`, servers may use the source during the copy.
    pub async fn open(
        from: &DatabaseOptions,
        to: &DatabaseOptions,
        mode: CopyMode,
        allow_in_use: bool,
    ) -> Result<Self, DatabaseCopyError> {
        open::open(from, to, mode, allow_in_use).await
    }

    /// Id of the source, and of the copy when it is complete.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Progress of the earlier copy.
    pub fn earlier_progress(&self) -> CopyProgress {
        self.state
    }

    /// Number of rows in the source and in the target.
    pub async fn count(&self, table: &CopyTable) -> Result<(u64, u64), DatabaseCopyError> {
        let source = rows::count_rows(&self.source, table).await;
        let source = source.map_err(|error| self.source_error(error))?;
        let Some(target) = &self.target else {
            return Ok((source, 0));
        };
        let target = rows::count_rows(target, table).await;
        Ok((source, target.map_err(|error| self.target_error(error))?))
    }

    /// Copies the next rows of a table, at most `page_size`. Returns their number; 0 at the end of the table.
    pub async fn copy(
        &self,
        table: &CopyTable,
        page_size: u32,
    ) -> Result<usize, DatabaseCopyError> {
        let target = self.target()?;
        let last = rows::fetch_last_key(target, table).await;
        let last = last.map_err(|error| self.target_error(error))?;
        let rows = rows::fetch_page(&self.source, table, last.as_deref(), page_size).await;
        let rows = rows.map_err(|error| self.source_error(error))?;
        if !rows.is_empty() {
            let added = rows::insert_rows(target, table, &rows).await;
            added.map_err(|error| self.target_error(error))?;
        }
        Ok(rows.len())
    }

    /// Compares a table in both databases, `page_size` rows at a time. `on_progress` is called with the number of further
    /// rows compared.
    pub async fn compare(
        &self,
        table: &CopyTable,
        page_size: u32,
        on_progress: impl FnMut(u64),
    ) -> Result<TableComparison, DatabaseCopyError> {
        let target = self.target()?;
        let compared = compare::compare(&self.source, target, table, page_size, on_progress).await;
        compared.map_err(|error| self.target_error(error))
    }

    /// Marks the copy as complete, so that servers may start on it.
    pub async fn complete(&self) -> Result<(), DatabaseCopyError> {
        let target = self.target()?;
        if let PerBackend::Postgres(pool) = target {
            let continued = sqlx::query(CONTINUE_OUTBOX_IDS).execute(pool).await;
            continued.map_err(|error| self.target_error(error))?;
        }
        let done = for_backend!(target, pool => sqlx::query(UPDATE_DATABASE_ID).bind(&self.id).execute(pool).await.map(drop));
        done.map_err(|error| self.target_error(error))
    }

    /// Closes both databases.
    pub async fn close(self) {
        for pool in std::iter::once(self.source).chain(self.target) {
            for_backend!(pool, pool => pool.close().await);
        }
    }

    fn target(&self) -> Result<&CopyPool, DatabaseCopyError> {
        let empty = || DatabaseCopyError::TargetEmpty(self.target_url.clone());
        self.target.as_ref().ok_or_else(empty)
    }

    fn source_error(&self, source: sqlx::Error) -> DatabaseCopyError {
        let url = self.source_url.clone();
        DatabaseCopyError::Statement { url, source }
    }

    fn target_error(&self, source: sqlx::Error) -> DatabaseCopyError {
        let url = self.target_url.clone();
        DatabaseCopyError::Statement { url, source }
    }
}
