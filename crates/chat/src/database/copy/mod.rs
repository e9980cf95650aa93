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

pub use self::compare::Compared;
use self::rows::Pool;
pub use self::tables::{TABLES, Table};
use super::{OpenError, Options, on};

/// How the id of a copy begins that is not complete.
const UNFINISHED: &str = "copying:";

const COMPLETE: &str = "UPDATE parlor SET value = $1 WHERE name = 'database'";

/// Whether an id is that of a copy which is not complete.
pub fn is_unfinished(id: &str) -> bool {
    id.starts_with(UNFINISHED)
}

/// What the copy of something with this id is called until it is complete.
pub fn unfinished(id: &str) -> String {
    format!("{UNFINISHED}{id}")
}

/// What is to be done with two databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Look at both, and change nothing.
    Look,
    /// Copy, or go on with a copy. One that is complete is left alone.
    Copy,
    /// Copy; a copy that was begun is emptied first.
    CopyAnew,
    /// Compare with a copy.
    Compare,
}

/// How far an earlier copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// There is none.
    Empty,
    /// It was begun.
    Begun,
    /// It is complete.
    Complete,
}

/// Why a database is not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// One of them cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is nothing to copy.
    #[error(
        "there is no database of Parlor at {0}; correct the address, or name the data folder with --data"
    )]
    Nothing(String),
    /// The source is itself half a copy.
    #[error("the database {0} is a copy that was not completed; copy from the original")]
    Half(String),
    /// The tables are others than those this program knows.
    #[error(
        "the database {url} has migration {found} and this program copies those with {known}; start the server of this version on it once, or use the version that made it"
    )]
    Version {
        /// Which.
        url: String,
        /// What it has.
        found: i64,
        /// What it must have.
        known: i64,
    },
    /// Somebody uses it.
    #[error(
        "the database {0} is in use; stop every server that uses it, or copy all the same with --force"
    )]
    Used(String),
    /// The target is another's.
    #[error(
        "the database {url} belongs to another installation (its id is {found}); name an empty one"
    )]
    Other {
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
        "the database {0} is a complete copy already and is not emptied; compare with --verify, or name an empty one"
    )]
    Complete(String),
    /// There is no copy to compare with.
    #[error("there is no copy in the database {0} yet")]
    None(String),
    /// A statement failed.
    #[error("the database {url} failed: {source}")]
    Statement {
        /// Which.
        url: String,
        /// Why.
        #[source]
        source: sqlx::Error,
    },
}

/// Two databases, of which one becomes a copy of the other.
pub struct Copying {
    id: String,
    state: Target,
    source: Pool,
    source_url: String,
    /// Not open where nothing is to be done with it.
    target: Option<Pool>,
    target_url: String,
}

impl Copying {
    /// Opens both, with what `intent` needs: on `Copy` the target has its tables and its mark afterwards. `used` takes a
    /// source that servers still use.
    pub async fn open(
        from: &Options,
        to: &Options,
        intent: Intent,
        used: bool,
    ) -> Result<Self, CopyError> {
        open::open(from, to, intent, used).await
    }

    /// The id of the source, and of the copy once it is complete.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How far the copy had come before.
    pub fn state(&self) -> Target {
        self.state
    }

    /// How many rows the source and the target have.
    pub async fn count(&self, table: &Table) -> Result<(u64, u64), CopyError> {
        let source = rows::count(&self.source, table).await;
        let source = source.map_err(|error| self.of_source(error))?;
        let Some(target) = &self.target else {
            return Ok((source, 0));
        };
        let target = rows::count(target, table).await;
        Ok((source, target.map_err(|error| self.of_target(error))?))
    }

    /// Copies the next rows of a table, `page` at most. Answers how many; none at the end.
    pub async fn copy(&self, table: &Table, page: u32) -> Result<usize, CopyError> {
        let target = self.target()?;
        let last = rows::last(target, table).await;
        let last = last.map_err(|error| self.of_target(error))?;
        let rows = rows::page(&self.source, table, last.as_deref(), page).await;
        let rows = rows.map_err(|error| self.of_source(error))?;
        if !rows.is_empty() {
            let added = rows::insert(target, table, &rows).await;
            added.map_err(|error| self.of_target(error))?;
        }
        Ok(rows.len())
    }

    /// Compares a table in both, `page` rows at a time; `told` hears how many more were looked at.
    pub async fn compare(
        &self,
        table: &Table,
        page: u32,
        told: impl FnMut(u64),
    ) -> Result<Compared, CopyError> {
        let target = self.target()?;
        let compared = compare::compare(&self.source, target, table, page, told).await;
        compared.map_err(|error| self.of_target(error))
    }

    /// Says that the copy is complete: servers may start on it.
    pub async fn complete(&self) -> Result<(), CopyError> {
        let target = self.target()?;
        let done =
            on!(target, pool => sqlx::query(COMPLETE).bind(&self.id).execute(pool).await.map(drop));
        done.map_err(|error| self.of_target(error))
    }

    /// Closes both.
    pub async fn close(self) {
        for pool in std::iter::once(self.source).chain(self.target) {
            on!(pool, pool => pool.close().await);
        }
    }

    fn target(&self) -> Result<&Pool, CopyError> {
        let none = || CopyError::None(self.target_url.clone());
        self.target.as_ref().ok_or_else(none)
    }

    fn of_source(&self, source: sqlx::Error) -> CopyError {
        let url = self.source_url.clone();
        CopyError::Statement { url, source }
    }

    fn of_target(&self, source: sqlx::Error) -> CopyError {
        let url = self.target_url.clone();
        CopyError::Statement { url, source }
    }
}
