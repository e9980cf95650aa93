//! Writing batches.
//!
//! Always true:
//! 1. A batch is on the disk, all of it, when `write` says so, and not at all otherwise.
//! 2. The log is moved into the file by hand and every failure of that is seen.

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::batch::{Batch, Change};
use super::file::Lock;
use super::row::{Meta, deadline_sum, item_sum, key_sum};
use crate::value::Blob;

/// The log is moved into the file when about this many pages wait in it.
const CHECKPOINT: usize = 4_000;

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
        for (key, change) in batch.in_order() {
            if change.dropped && !batch.cleared {
                drop_key(&transaction, key)?;
            }
            write_key(&transaction, key, change)?;
            write_items(&transaction, key, change)?;
        }
        transaction.commit()?;
        self.marked = true;
        self.logged += batch.pages();
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

fn drop_key(transaction: &Transaction<'_>, key: &Blob) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("DELETE FROM key WHERE k = ?")?
        .execute([&**key])?;
    transaction
        .prepare_cached("DELETE FROM item WHERE k = ?")?
        .execute([&**key])?;
    Ok(())
}

fn write_key(transaction: &Transaction<'_>, key: &Blob, change: &Change) -> rusqlite::Result<()> {
    if let Some(header) = &change.header {
        let text = header.text.as_ref().map(|text| text.bytes());
        let value = text.as_deref();
        let sum = key_sum(key, header.kind, value);
        let deadline = header.deadline.map(u64::cast_signed);
        let deadline_sum = deadline_sum(key, header.deadline);
        let row = params![
            &**key,
            header.kind as i64,
            value,
            sum,
            deadline,
            deadline_sum
        ];
        transaction
            .prepare_cached("INSERT OR REPLACE INTO key VALUES (?, ?, ?, ?, ?, ?)")?
            .execute(row)?;
    } else if let Some(deadline) = change.deadline {
        let sum = deadline_sum(key, deadline);
        let row = params![&**key, deadline.map(u64::cast_signed), sum];
        let sql = "UPDATE key SET deadline = ?2, deadline_crc = ?3 WHERE k = ?1";
        transaction.prepare_cached(sql)?.execute(row)?;
    }
    Ok(())
}

fn write_items(transaction: &Transaction<'_>, key: &Blob, change: &Change) -> rusqlite::Result<()> {
    if change.items.is_empty() {
        return Ok(());
    }
    let mut put = transaction.prepare_cached("INSERT OR REPLACE INTO item VALUES (?, ?, ?, ?)")?;
    let mut remove = transaction.prepare_cached("DELETE FROM item WHERE k = ? AND i = ?")?;
    let mut items: Vec<_> = change.items.iter().collect();
    items.sort_unstable_by_key(|(item, _)| *item);
    for (item, value) in items {
        match value {
            Some(value) => put.execute(params![
                &**key,
                &**item,
                &**value,
                item_sum(key, item, value)
            ])?,
            None => remove.execute(params![&**key, &**item])?,
        };
    }
    Ok(())
}
