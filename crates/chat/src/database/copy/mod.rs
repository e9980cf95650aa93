//! Copying a database into another one, of either kind.
//!
//! Always true:
//! 1. The copy has the id of the source, marked as not completed until everything was compared: no server starts on half.
//! 2. Rows are copied in the order of their primary key, a page in one transaction: the highest key in the target says how far
//!    the copy has come, and going on from there leaves nothing out and doubles nothing.
//! 3. The source is not changed. A database that is complete, or another's, is never written to.

mod compare;
mod open;
mod rows;
mod tables;

pub use self::compare::TableComparison;
use self::rows::CopyPool;
pub use self::tables::{CopyTable, TABLES};
use super::{DatabaseOpenError, DatabaseOptions, on};

/// How the id of a copy begins that is not complete.
const INCOMPLETE_PREFIX: &str = "copying:";

const UPDATE_DATABASE_ID: &str = "UPDATE parlor SET value = $1 WHERE name = 'database'";

/// Whether an id is that of a copy which is not complete.
pub fn is_incomplete_copy_id(id: &str) -> bool {
    id.starts_with(INCOMPLETE_PREFIX)
}

/// What the copy of something with this id is called until it is complete.
pub fn incomplete_copy_id(id: &str) -> String {
    format!("{INCOMPLETE_PREFIX}{id}")
}

/// What is to be done with two databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyMode {
    /// Look at both, and change nothing.
    DryRun,
    /// Copy, or go on with a copy. One that is complete is left alone.
    Copy,
    /// Copy; a copy that was begun is emptied first.
    Restart,
    /// Compare with a copy.
    Verify,
}

/// How far an earlier copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyProgress {
    /// There is none.
    NotStarted,
    /// It was begun.
    InProgress,
    /// It is complete.
    Complete,
}

/// Why a database is not copied.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseCopyError {
    /// One of them cannot be opened.
    #[error(transparent)]
    Open(#[from] DatabaseOpenError),
    /// There is nothing to copy.
    #[error(
        "there is no database of Parlor at {0}; correct the address, or set the data folder with --data"
    )]
    SourceMissing(String),
    /// The source is itself half a copy.
    #[error("the database {0} is an incomplete copy; copy from the original database")]
    SourceIncomplete(String),
    /// The tables are others than those this program knows.
    #[error(
        "the database {url} has migration {found}, but this program copies databases with migration {known}; start this version of the server on it once, or use the version that migrated it"
    )]
    MigrationMismatch {
        /// Which.
        url: String,
        /// What it has.
        found: i64,
        /// What it must have.
        known: i64,
    },
    /// Somebody uses it.
    #[error(
        "the database {0} is in use; stop every server that uses it, or copy it anyway with --force"
    )]
    SourceInUse(String),
    /// The target is another's.
    #[error(
        "the database {url} belongs to another installation (its id is {found}); name an empty database"
    )]
    TargetOfOtherInstallation {
        /// Which.
        url: String,
        /// Its id.
        found: String,
    },
    /// Both are one.
    #[error("source and target are the same database {0}; there is nothing to copy")]
    Same(String),
    /// The target is complete.
    #[error(
        "the database {0} is already a complete copy and is not overwritten; compare it with --verify, or name an empty database"
    )]
    TargetComplete(String),
    /// There is no copy to compare with.
    #[error("there is no copy in the database {0} yet; make one without --verify")]
    None(String),
    /// A statement failed.
    #[error("a statement on the database {url} failed: {source}")]
    Statement {
        /// Which.
        url: String,
        /// Why.
        #[source]
        source: sqlx::Error,
    },
}

/// Two databases, of which one becomes a copy of the other.
pub struct DatabaseCopy {
    id: String,
    state: CopyProgress,
    source: CopyPool,
    source_url: String,
    /// Not open where nothing is to be done with it.
    target: Option<CopyPool>,
    target_url: String,
}

impl DatabaseCopy {
    /// Opens both, with what `intent` needs: on `Copy` the target has its tables and its mark afterwards. `used` takes a
    /// source that servers still use.
    pub async fn open(
        from: &DatabaseOptions,
        to: &DatabaseOptions,
        intent: CopyMode,
        used: bool,
    ) -> Result<Self, DatabaseCopyError> {
        open::open(from, to, intent, used).await
    }

    /// The id of the source, and of the copy once it is complete.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How far the copy had come before.
    pub fn earlier_progress(&self) -> CopyProgress {
        self.state
    }

    /// How many rows the source and the target have.
    pub async fn count(&self, table: &CopyTable) -> Result<(u64, u64), DatabaseCopyError> {
        let source = rows::count_rows(&self.source, table).await;
        let source = source.map_err(|error| self.source_error(error))?;
        let Some(target) = &self.target else {
            return Ok((source, 0));
        };
        let target = rows::count_rows(target, table).await;
        Ok((source, target.map_err(|error| self.target_error(error))?))
    }

    /// Copies the next rows of a table, `page` at most. Answers how many; none at the end.
    pub async fn copy(&self, table: &CopyTable, page: u32) -> Result<usize, DatabaseCopyError> {
        let target = self.target()?;
        let last = rows::fetch_last_key(target, table).await;
        let last = last.map_err(|error| self.target_error(error))?;
        let rows = rows::fetch_page(&self.source, table, last.as_deref(), page).await;
        let rows = rows.map_err(|error| self.source_error(error))?;
        if !rows.is_empty() {
            let added = rows::insert_rows(target, table, &rows).await;
            added.map_err(|error| self.target_error(error))?;
        }
        Ok(rows.len())
    }

    /// Compares a table in both, `page` rows at a time; `told` hears how many more were looked at.
    pub async fn compare(
        &self,
        table: &CopyTable,
        page: u32,
        told: impl FnMut(u64),
    ) -> Result<TableComparison, DatabaseCopyError> {
        let target = self.target()?;
        let compared = compare::compare(&self.source, target, table, page, told).await;
        compared.map_err(|error| self.target_error(error))
    }

    /// Says that the copy is complete: servers may start on it.
    pub async fn complete(&self) -> Result<(), DatabaseCopyError> {
        let target = self.target()?;
        let done = on!(target, pool => sqlx::query(UPDATE_DATABASE_ID).bind(&self.id).execute(pool).await.map(drop));
        done.map_err(|error| self.target_error(error))
    }

    /// Closes both.
    pub async fn close(self) {
        for pool in std::iter::once(self.source).chain(self.target) {
            on!(pool, pool => pool.close().await);
        }
    }

    fn target(&self) -> Result<&CopyPool, DatabaseCopyError> {
        let none = || DatabaseCopyError::None(self.target_url.clone());
        self.target.as_ref().ok_or_else(none)
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
