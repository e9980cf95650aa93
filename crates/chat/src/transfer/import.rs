//! The target of an import.
//!
//! ```text
//! open ─ not in use? ─ mark as incomplete ─ page, page, … ─ owners ─ caches of the store ─ remove the mark
//! ```
//!
//! Invariants:
//! 1. No server uses the database when the first page is written, and none opens it before the mark is removed.
//! 2. A page is read against the database and written in one transaction.

use super::error::{ImportError, TransferError};
use super::exact;
use super::lines::NumberedRecord;
use super::records::{FileFormat, Record, RecordCounts, RecordType};
use super::{ImportLimits, assigned};
use crate::database::{
    Database, DatabaseOptions, OpenedForImport, PerBackend, for_backend, inspect,
};
use crate::ids::ConversationId;

const SELECT_CONVERSATION: &str = "SELECT COUNT(*) FROM conversations WHERE id = $1";

/// A database that is imported into.
pub struct Import {
    database: Database,
    format: FileFormat,
    limits: ImportLimits,
    /// True if an earlier import was not completed.
    resumes: bool,
    has_written: bool,
}

/// Numbers of records of a page.
#[derive(Debug, Clone, Copy, Default)]
pub struct PageCounts {
    /// Number of records.
    pub read: RecordCounts,
    /// Number of records that changed the database.
    pub written: RecordCounts,
}

impl PageCounts {
    pub(super) fn add(&mut self, record_type: RecordType, read: u64, written: u64) {
        self.read.add(record_type, read);
        self.written.add(record_type, written);
    }

    /// Adds the counts of another page.
    pub fn merge(&mut self, other: &Self) {
        for record_type in RecordType::ALL {
            let (read, written) = (
                other.read.get(*record_type),
                other.written.get(*record_type),
            );
            self.add(*record_type, read, written);
        }
    }
}

impl Import {
    /// Opens a database, applies missing migrations and marks the database as incomplete. Fails if servers use it.
    pub async fn open(
        options: DatabaseOptions,
        format: FileFormat,
        limits: ImportLimits,
    ) -> Result<Self, TransferError> {
        let url = options.url.to_string();
        let opened = Database::open_for_import(options).await?;
        let OpenedForImport::Ready { database, resumes } = opened else {
            return Err(TransferError::InUse(url));
        };
        Ok(Self {
            database,
            format,
            limits,
            resumes,
            has_written: false,
        })
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// True if this continues an import that was not completed.
    pub fn resumes(&self) -> bool {
        self.resumes
    }

    /// Imports a page of records, all or none.
    pub async fn write_page(&mut self, page: &[NumberedRecord]) -> Result<PageCounts, ImportError> {
        for it in page {
            let checked = it.record.check(self.format, &self.limits);
            checked.map_err(|problem| problem.at(it.line))?;
        }
        let records = page
            .iter()
            .filter(|it| !matches!(it.record, Record::Header(_) | Record::End(_)));
        let records: Vec<NumberedRecord> = records.cloned().collect();
        let mut tx = self.database.begin().await?;
        let counts = match self.format {
            FileFormat::Exported => exact::write_page(&mut tx, &records).await?,
            FileFormat::Foreign => assigned::write_page(&mut tx, &records, &self.limits).await?,
        };
        if counts.written.total() > 0 {
            tx.commit().await?;
            self.has_written = true;
        }
        Ok(counts)
    }

    /// Restores the invariant that only all lines together can satisfy: every group and support conversation has an owner.
    pub async fn complete_rows(&self) -> Result<(), TransferError> {
        if self.format == FileFormat::Foreign {
            assigned::choose_owners(&self.database).await?;
        }
        Ok(())
    }

    /// Removes the mark, so that servers may use the database.
    pub async fn complete(self) -> Result<(), TransferError> {
        self.database.remove_import_mark().await?;
        self.database.close().await;
        Ok(())
    }

    /// Closes the database after a failure. If nothing was written, servers may use the database as before.
    pub async fn abandon(self) -> Result<(), TransferError> {
        if !self.has_written && !self.resumes {
            self.database.remove_import_mark().await?;
        }
        self.database.close().await;
        Ok(())
    }
}

/// Returns the conversations that the database does not contain. A database that does not exist yet contains none.
pub async fn find_unknown_conversations(
    options: &DatabaseOptions,
    conversations: Vec<(u64, ConversationId)>,
) -> Result<Vec<(u64, ConversationId)>, TransferError> {
    if conversations.is_empty() || inspect(options).await?.is_none_or(|it| it.id.is_none()) {
        return Ok(conversations);
    }
    let pool = crate::database::copy::open_for_reading(options).await?;
    let mut unknown = Vec::new();
    for (line, id) in conversations {
        let count: i64 = for_backend!(&pool, pool => {
            sqlx::query_scalar(SELECT_CONVERSATION).bind(id.as_str()).fetch_one(pool).await?
        });
        if count == 0 {
            unknown.push((line, id));
        }
    }
    match pool {
        PerBackend::Sqlite(pool) => pool.close().await,
        PerBackend::Postgres(pool) => pool.close().await,
    }
    Ok(unknown)
}

/// The problem of a conversation that neither the file nor the database contains.
impl From<(u64, ConversationId)> for super::LineProblem {
    fn from((line, id): (u64, ConversationId)) -> Self {
        exact::unknown_conversation_problem(id.as_str()).at(line)
    }
}
