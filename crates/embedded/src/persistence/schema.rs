//! The tables of the store file, and the checksums of their rows.
//!
//! Invariants:
//! 1. A checksum covers the table, and every column of the row with its length, so that no row passes for another row.
//! 2. The deadline has its own checksum, so an update of the deadline does not need the value.

use rusqlite::{Connection, params};

use super::sqlite_error::StoreLoadError;
use crate::values::ValueType;

/// The `CREATE TABLE` texts in the order of the table names. A file with any other schema is corrupt.
pub const CREATE_TABLES: [&str; 3] = [
    "CREATE TABLE item (k BLOB NOT NULL, i BLOB NOT NULL, v BLOB NOT NULL, crc INTEGER NOT NULL, \
     PRIMARY KEY (k, i)) WITHOUT ROWID",
    "CREATE TABLE key (k BLOB NOT NULL PRIMARY KEY, kind INTEGER NOT NULL, v BLOB, crc INTEGER NOT NULL, \
     deadline INTEGER, deadline_crc INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE meta (id INTEGER PRIMARY KEY, clean INTEGER NOT NULL, run_id TEXT NOT NULL, crc INTEGER NOT NULL)",
];

struct RowChecksum(crc32fast::Hasher);

impl RowChecksum {
    fn for_table(table: u8) -> Self {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&[table]);
        Self(hasher)
    }

    fn add(mut self, bytes: &[u8]) -> Self {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    fn add_option(self, bytes: Option<&[u8]>) -> Self {
        match bytes {
            Some(bytes) => self.add(b"1").add(bytes),
            None => self.add(b"0"),
        }
    }

    fn finish(self) -> u32 {
        self.0.finalize()
    }
}

/// Checksum of the type and value of a key.
pub fn key_checksum(key: &[u8], value_type: ValueType, value: Option<&[u8]>) -> u32 {
    RowChecksum::for_table(b'k')
        .add(key)
        .add(&[value_type as u8])
        .add_option(value)
        .finish()
}

pub fn deadline_checksum(key: &[u8], deadline: Option<u64>) -> u32 {
    let bytes = deadline.map(u64::to_le_bytes);
    RowChecksum::for_table(b'd')
        .add(key)
        .add_option(bytes.as_ref().map(|bytes| &bytes[..]))
        .finish()
}

pub fn item_checksum(key: &[u8], item: &[u8], value: &[u8]) -> u32 {
    RowChecksum::for_table(b'i')
        .add(key)
        .add(item)
        .add(value)
        .finish()
}

/// The single row about the store itself.
#[derive(Debug, Clone)]
pub struct StoreMetaRow {
    /// Whether the run that wrote this row flushed everything before it ended.
    pub closed_cleanly: bool,
    /// Id of that run.
    pub run_id: String,
}

impl StoreMetaRow {
    fn checksum(clean: i64, run_id: &str) -> u32 {
        RowChecksum::for_table(b'm')
            .add(&clean.to_le_bytes())
            .add(run_id.as_bytes())
            .finish()
    }

    pub fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let clean = i64::from(self.closed_cleanly);
        let sum = Self::checksum(clean, &self.run_id);
        let sql = "INSERT OR REPLACE INTO meta (id, clean, run_id, crc) VALUES (1, ?, ?, ?)";
        connection
            .prepare_cached(sql)?
            .execute(params![clean, self.run_id, sum])
            .map(drop)
    }

    /// Reads the row from the file and checks it.
    pub fn read(connection: &Connection) -> Result<Self, StoreLoadError> {
        let mut statement = connection.prepare("SELECT id, clean, run_id, crc FROM meta")?;
        let rows = statement.query_map([], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, i64>(3)?,
            ))
        })?;
        let rows: Vec<_> = rows.collect::<Result<_, _>>()?;
        match &rows[..] {
            [(1, clean, run_id, sum)] if i64::from(Self::checksum(*clean, run_id)) == *sum => {
                Ok(Self {
                    closed_cleanly: *clean == 1,
                    run_id: run_id.clone(),
                })
            }
            _ => Err(StoreLoadError::Corrupt(
                "its row about the last run does not match its checksum".into(),
            )),
        }
    }
}
