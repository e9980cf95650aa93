//! Writing batches.
//!
//! Always true:
//! 1. A batch is on the disk, all of it, when `write` says so, and not at all otherwise.
//! 2. The log is moved into the file by hand and every failure of that is seen.

use rusqlite::{CachedStatement, Connection, TransactionBehavior, params};

use super::batch::{Batch, Change};
use super::file::Lock;
use super::row::{Meta, deadline_sum, item_sum, key_sum};
use crate::value::Blob;

/// The log is moved into the file when about this many pages wait in it.
const CHECKPOINT: usize = 4_000;
const PAGE: usize = 4_096;

/// The one writer of a store.
pub struct Writer {
    // Closed before the lock is given up.
    connection: Connection,
    run_id: String,
    /// Whether the file says that a run is under way.
    marked: bool,
    /// About how many pages are in the log.
    logged: usize,
    _lock: Lock,
}

impl Writer {
    pub(super) fn new(connection: Connection, lock: Lock, run_id: &str) -> Self {
        Self {
            connection,
            run_id: run_id.to_owned(),
            marked: false,
            logged: 0,
            _lock: lock,
        }
    }

    /// Says in the file that a run is under way.
    pub fn mark_open(&mut self) -> rusqlite::Result<()> {
        self.write(&Batch::default())
    }

    /// Whether the file says that a run is under way. Until then no write may be accepted.
    pub fn is_marked(&self) -> bool {
        self.marked
    }

    /// Makes a batch durable.
    pub fn write(&mut self, batch: &Batch) -> rusqlite::Result<()> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        if !self.marked {
            Meta {
                clean: false,
                run_id: self.run_id.clone(),
            }
            .write(&transaction)?;
        }
        if batch.cleared {
            transaction.execute("DELETE FROM key", [])?;
            transaction.execute("DELETE FROM item", [])?;
        }
        let written = {
            let mut rows = Rows::of(&transaction)?;
            for (key, change) in batch.in_order() {
                if change.dropped && !batch.cleared {
                    rows.remove(key)?;
                }
                rows.write_key(key, change)?;
                rows.write_items(key, change)?;
            }
            rows.written
        };
        transaction.commit()?;
        self.marked = true;
        self.logged += written + batch.bytes() / PAGE;
        Ok(())
    }

    /// Moves the log into the file if it has become long.
    pub fn tidy(&mut self) -> rusqlite::Result<()> {
        if self.logged >= CHECKPOINT {
            self.checkpoint("PASSIVE")?;
            self.logged = 0;
        }
        Ok(())
    }

    /// Says in the file that everything is written, and leaves no log behind.
    pub fn close(self) -> rusqlite::Result<()> {
        Meta {
            clean: true,
            run_id: self.run_id.clone(),
        }
        .write(&self.connection)?;
        self.checkpoint("TRUNCATE")?;
        self.connection.flush_prepared_statement_cache();
        self.connection.close().map_err(|(_, error)| error)
    }

    fn checkpoint(&self, how: &str) -> rusqlite::Result<()> {
        self.connection
            .query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |_| Ok(()))
    }
}

/// What is done to rows, prepared once for all of a batch.
struct Rows<'a> {
    /// How many were written, each about a page of the log.
    written: usize,
    put_key: CachedStatement<'a>,
    put_deadline: CachedStatement<'a>,
    drop_key: CachedStatement<'a>,
    put_item: CachedStatement<'a>,
    drop_item: CachedStatement<'a>,
    drop_items: CachedStatement<'a>,
}

impl<'a> Rows<'a> {
    fn of(connection: &'a Connection) -> rusqlite::Result<Self> {
        let deadline = "UPDATE key SET deadline = ?2, deadline_crc = ?3 WHERE k = ?1";
        Ok(Self {
            written: 0,
            put_key: connection
                .prepare_cached("INSERT OR REPLACE INTO key VALUES (?, ?, ?, ?, ?, ?)")?,
            put_deadline: connection.prepare_cached(deadline)?,
            drop_key: connection.prepare_cached("DELETE FROM key WHERE k = ?")?,
            put_item: connection
                .prepare_cached("INSERT OR REPLACE INTO item VALUES (?, ?, ?, ?)")?,
            drop_item: connection.prepare_cached("DELETE FROM item WHERE k = ? AND i = ?")?,
            drop_items: connection.prepare_cached("DELETE FROM item WHERE k = ?")?,
        })
    }

    fn remove(&mut self, key: &Blob) -> rusqlite::Result<()> {
        self.drop_key.execute([&**key])?;
        self.drop_items.execute([&**key])?;
        self.written += 1;
        Ok(())
    }

    fn write_key(&mut self, key: &Blob, change: &Change) -> rusqlite::Result<()> {
        if let Some(header) = &change.header {
            let text = header.text.as_ref().map(|text| text.bytes());
            let value = text.as_deref();
            let sum = key_sum(key, header.kind, value);
            let deadline = header.deadline.map(u64::cast_signed);
            let deadline_sum = deadline_sum(key, header.deadline);
            let kind = header.kind as i64;
            let row = params![&**key, kind, value, sum, deadline, deadline_sum];
            self.written += self.put_key.execute(row)?;
        } else if let Some(deadline) = change.deadline {
            let sum = deadline_sum(key, deadline);
            let row = params![&**key, deadline.map(u64::cast_signed), sum];
            self.written += self.put_deadline.execute(row)?;
        }
        Ok(())
    }

    fn write_items(&mut self, key: &Blob, change: &Change) -> rusqlite::Result<()> {
        for (item, value) in change.items() {
            self.written += match value {
                Some(value) => {
                    let sum = item_sum(key, item, value);
                    self.put_item
                        .execute(params![&**key, &**item, &**value, sum])?
                }
                None => self.drop_item.execute(params![&**key, &**item])?,
            };
        }
        Ok(())
    }
}
