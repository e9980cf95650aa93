//! Exports a database.
//!
//! Invariants:
//! 1. All pages are read in one transaction, so the file is a snapshot although servers may write meanwhile.
//! 2. Nothing is written to the database.

use serde::Serialize;
use sqlx::{Postgres, Sqlite};

use super::PAGE_SIZE;
use super::error::TransferError;
use super::records::{
    ConversationRecord, DeletedConversationRecord, EndRecord, HeaderRecord, MemberRecord,
    MentionRecord, MessageRecord, ReadRecord, RecordType, SessionRecord, UserRecord,
};
use super::rows::{self, AnyConnection};
use super::tables::{EXPORT_ORDER, ExportTable};
use crate::database::copy::{self, CellRow, CopyPool};
use crate::database::{DatabaseOptions, PerBackend, for_backend};

/// All statements of the transaction see the rows of its beginning.
const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
const COUNT_IMPORT_MARKS: &str = "SELECT COUNT(*) FROM parlor WHERE name = 'import'";

/// A running export.
pub struct Export {
    pool: CopyPool,
    snapshot: PerBackend<sqlx::Transaction<'static, Sqlite>, sqlx::Transaction<'static, Postgres>>,
}

impl Export {
    /// Opens a database for reading.
    pub async fn open(options: &DatabaseOptions) -> Result<Self, TransferError> {
        let pool = copy::open_for_reading(options).await?;
        let snapshot = match &pool {
            PerBackend::Sqlite(pool) => PerBackend::Sqlite(pool.begin().await?),
            PerBackend::Postgres(pool) => {
                PerBackend::Postgres(pool.begin_with(BEGIN_SNAPSHOT).await?)
            }
        };
        let mut export = Self { pool, snapshot };
        let marks: i64 = for_backend!(export.connection(), c => sqlx::query_scalar(COUNT_IMPORT_MARKS).fetch_one(c).await)?;
        match marks {
            0 => Ok(export),
            _ => Err(TransferError::ImportIncomplete(options.url.to_string())),
        }
    }

    /// The parts of the file, in their order.
    pub fn parts() -> &'static [ExportTable] {
        EXPORT_ORDER
    }

    /// Number of records of a part.
    pub async fn count(&mut self, part: &ExportTable) -> Result<u64, TransferError> {
        Ok(rows::count_rows(self.connection(), part.table).await?)
    }

    /// The first line.
    pub fn header() -> String {
        to_line(&HeaderRecord::current())
    }

    /// The last line, after this number of records.
    pub fn end(records: u64) -> String {
        to_line(&EndRecord::new(records))
    }

    /// Passes the lines of a part to `write`, one page at a time, with the number of records. Returns the number of all
    /// records of the part.
    pub async fn write_part(
        &mut self,
        part: &ExportTable,
        mut write: impl FnMut(&str, u64) -> std::io::Result<()>,
    ) -> Result<u64, TransferError> {
        let (mut total, mut last_key, mut text) = (0, None::<CellRow>, String::new());
        loop {
            let page = rows::fetch_page(self.connection(), part.table, last_key.as_deref()).await?;
            let count = page.len();
            last_key = page
                .last()
                .map(|row| row[..part.table.key_columns].to_vec());
            text.clear();
            for row in page {
                text.push_str(&line_of(part.record_type, row));
            }
            total += count as u64;
            if count > 0 {
                write(&text, count as u64)?;
            }
            if count < PAGE_SIZE {
                return Ok(total);
            }
        }
    }

    /// Ends the transaction and closes the connection.
    pub async fn close(self) -> Result<(), TransferError> {
        for_backend!(self.snapshot, snapshot => snapshot.rollback().await)?;
        for_backend!(self.pool, pool => pool.close().await);
        Ok(())
    }

    fn connection(&mut self) -> AnyConnection<'_> {
        match &mut self.snapshot {
            PerBackend::Sqlite(snapshot) => PerBackend::Sqlite(&mut *snapshot),
            PerBackend::Postgres(snapshot) => PerBackend::Postgres(&mut *snapshot),
        }
    }
}

fn line_of(record_type: RecordType, row: CellRow) -> String {
    match record_type {
        RecordType::User => to_line(&UserRecord::from_row(row)),
        RecordType::Session => to_line(&SessionRecord::from_row(row)),
        RecordType::DeletedConversation => to_line(&DeletedConversationRecord::from_row(row)),
        RecordType::Conversation => to_line(&ConversationRecord::from_row(row)),
        RecordType::Member => to_line(&MemberRecord::from_row(row)),
        RecordType::Message => to_line(&MessageRecord::from_row(row)),
        RecordType::Mention => to_line(&MentionRecord::from_row(row)),
        RecordType::Read => to_line(&ReadRecord::from_row(row)),
        RecordType::Parlor | RecordType::End => String::new(),
    }
}

fn to_line(record: &impl Serialize) -> String {
    let mut line = serde_json::to_string(record).expect("strings and numbers serialize to JSON");
    line.push('\n');
    line
}
