//! Writes batches to the store file.
//!
//! Invariants:
//! 1. When `write` returns `Ok`, the whole batch is on disk. The file never contains a part of a batch.
//! 2. SQLite runs a WAL checkpoint only when the writer asks for one, so every failure of a checkpoint is seen.

use rusqlite::{CachedStatement, Connection, TransactionBehavior, params};

use super::flush_batch::{FlushBatch, KeyChange};
use super::folder_lock::DataFolderLock;
use super::schema::{StoreMetaRow, deadline_checksum, item_checksum, key_checksum};
use crate::values::{SharedBytes, StringValue};

/// A checkpoint is due when the WAL has about this many pages.
const CHECKPOINT_PAGES: usize = 4_000;
const PAGE_BYTES: usize = 4_096;

/// The only writer of a store.
pub struct StoreWriter {
    // Dropped before the lock is released.
    connection: Connection,
    run_id: String,
    /// Whether the file says that a run is in progress.
    run_marked: bool,
    /// Approximate number of pages in the WAL.
    wal_pages: usize,
    _lock: DataFolderLock,
}

impl StoreWriter {
    pub(super) fn new(connection: Connection, lock: DataFolderLock, run_id: String) -> Self {
        Self {
            connection,
            run_id,
            run_marked: false,
            wal_pages: 0,
            _lock: lock,
        }
    }

    /// Writes to the file that a run is in progress.
    pub fn mark_run_started(&mut self) -> rusqlite::Result<()> {
        self.write(&FlushBatch::default())
    }

    /// Whether the file says that a run is in progress. No write may be accepted before that.
    pub fn is_run_marked(&self) -> bool {
        self.run_marked
    }

    /// Writes a batch to disk in one transaction.
    pub fn write(&mut self, batch: &FlushBatch) -> rusqlite::Result<()> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        if !self.run_marked {
            StoreMetaRow {
                closed_cleanly: false,
                run_id: self.run_id.clone(),
            }
            .write(&transaction)?;
        }
        if batch.deletes_all_keys {
            transaction.execute("DELETE FROM key", [])?;
            transaction.execute("DELETE FROM item", [])?;
        }
        let written = {
            let mut rows = RowStatements::prepare(&transaction)?;
            for (key, change) in batch.sorted_by_key() {
                if change.deletes_old_rows && !batch.deletes_all_keys {
                    rows.delete_key(key)?;
                }
                rows.write_key(key, change)?;
                rows.write_items(key, change)?;
            }
            rows.rows_written
        };
        transaction.commit()?;
        self.run_marked = true;
        self.wal_pages += written + batch.bytes() / PAGE_BYTES;
        Ok(())
    }

    /// Runs a checkpoint if the WAL has become long.
    pub fn checkpoint_if_due(&mut self) -> rusqlite::Result<()> {
        if self.wal_pages >= CHECKPOINT_PAGES {
            self.checkpoint("PASSIVE")?;
            self.wal_pages = 0;
        }
        Ok(())
    }

    /// Marks the file as cleanly closed and empties the WAL.
    pub fn close(self) -> rusqlite::Result<()> {
        StoreMetaRow {
            closed_cleanly: true,
            run_id: self.run_id.clone(),
        }
        .write(&self.connection)?;
        self.checkpoint("TRUNCATE")?;
        self.connection.flush_prepared_statement_cache();
        self.connection.close().map_err(|(_, error)| error)
    }

    fn checkpoint(&self, mode: &str) -> rusqlite::Result<()> {
        self.connection
            .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
    }
}

/// SQL statements for the rows of a batch, prepared once per batch.
struct RowStatements<'a> {
    /// Number of written rows. Each takes about one page of the WAL.
    rows_written: usize,
    upsert_key: CachedStatement<'a>,
    update_deadline: CachedStatement<'a>,
    delete_key_row: CachedStatement<'a>,
    upsert_item: CachedStatement<'a>,
    delete_item: CachedStatement<'a>,
    delete_items: CachedStatement<'a>,
}

impl<'a> RowStatements<'a> {
    fn prepare(connection: &'a Connection) -> rusqlite::Result<Self> {
        let deadline = "UPDATE key SET deadline = ?2, deadline_crc = ?3 WHERE k = ?1";
        Ok(Self {
            rows_written: 0,
            upsert_key: connection
                .prepare_cached("INSERT OR REPLACE INTO key VALUES (?, ?, ?, ?, ?, ?)")?,
            update_deadline: connection.prepare_cached(deadline)?,
            delete_key_row: connection.prepare_cached("DELETE FROM key WHERE k = ?")?,
            upsert_item: connection
                .prepare_cached("INSERT OR REPLACE INTO item VALUES (?, ?, ?, ?)")?,
            delete_item: connection.prepare_cached("DELETE FROM item WHERE k = ? AND i = ?")?,
            delete_items: connection.prepare_cached("DELETE FROM item WHERE k = ?")?,
        })
    }

    fn delete_key(&mut self, key: &SharedBytes) -> rusqlite::Result<()> {
        self.delete_key_row.execute([&**key])?;
        self.delete_items.execute([&**key])?;
        self.rows_written += 1;
        Ok(())
    }

    fn write_key(&mut self, key: &SharedBytes, change: &KeyChange) -> rusqlite::Result<()> {
        if let Some(row) = &change.key_row {
            let string = row.string.as_ref().map(StringValue::to_bytes);
            let value = string.as_deref();
            let sum = key_checksum(key, row.value_type, value);
            let deadline = row.deadline.map(u64::cast_signed);
            let deadline_sum = deadline_checksum(key, row.deadline);
            let value_type = row.value_type as i64;
            self.rows_written += self.upsert_key.execute(params![
                &**key,
                value_type,
                value,
                sum,
                deadline,
                deadline_sum
            ])?;
        } else if let Some(deadline) = change.deadline {
            let sum = deadline_checksum(key, deadline);
            let row = params![&**key, deadline.map(u64::cast_signed), sum];
            self.rows_written += self.update_deadline.execute(row)?;
        }
        Ok(())
    }

    fn write_items(&mut self, key: &SharedBytes, change: &KeyChange) -> rusqlite::Result<()> {
        for (item, value) in change.items() {
            self.rows_written += match value {
                Some(value) => {
                    let sum = item_checksum(key, item, value);
                    self.upsert_item
                        .execute(params![&**key, &**item, &**value, sum])?
                }
                None => self.delete_item.execute(params![&**key, &**item])?,
            };
        }
        Ok(())
    }
}
