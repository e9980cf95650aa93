//! Loads a whole store file into a database. The loader trusts nothing in the file.
//!
//! Invariants:
//! 1. Key rows and item rows are read side by side in key order, each table once.
//! 2. Every row is checked against its checksum, and the rows must fit together: no item without its key, no collection
//!    without items, no gap in a list.

use std::collections::VecDeque;

use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::{Connection, Row, Rows};

use super::schema::{self, StoreMetaRow};
use super::sqlite_error::StoreLoadError;
use super::store_file::{APPLICATION_ID, FORMAT_VERSION};
use crate::db::Db;
use crate::db::journal::JournalEntry;
use crate::db::row_codec::{decode_item_number, decode_score};
use crate::values::{Hash, List, Set, SharedBytes, StoredValue, StringValue, ValueType, ZSet};

/// Lets SQLite check the structure of its pages. A row that a corrupt page has lost has no checksum that could fail.
pub fn check_pages(connection: &Connection) -> Result<(), StoreLoadError> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        Ok(())
    } else {
        Err(StoreLoadError::Corrupt(found.replace('\n', "; ")))
    }
}

/// Loads every key that has not expired at the database's time. The next flush deletes the expired keys from the file.
pub fn load(connection: &Connection, db: &mut Db) -> Result<StoreMetaRow, StoreLoadError> {
    let transaction = connection.unchecked_transaction()?;
    check_format(connection)?;
    let meta = StoreMetaRow::read(connection)?;
    let mut keys =
        connection.prepare("SELECT k, kind, v, crc, deadline, deadline_crc FROM key ORDER BY k")?;
    let mut items = connection.prepare("SELECT k, i, v, crc FROM item ORDER BY k, i")?;
    let mut keys = keys.query([])?;
    let mut items = ItemCursor::new(items.query([])?)?;
    while let Some(row) = keys.next()? {
        let key = row.get_ref(0)?.as_blob()?;
        let loaded_key =
            LoadedKey::read(key, row).map_err(|problem| corrupt_key_error(key, problem))?;
        items.reject_orphans_before(Some(key))?;
        let value = loaded_key.value(&mut items).map_err(|error| match error {
            ValueLoadError::Row(problem) => corrupt_key_error(key, problem),
            ValueLoadError::File(error) => error,
        })?;
        if loaded_key
            .deadline
            .is_some_and(|deadline| db.now() > deadline)
        {
            db.journal
                .push(|| JournalEntry::RemoveKey { key: key.into() });
        } else {
            db.insert_unjournaled(key.into(), value, loaded_key.deadline);
        }
    }
    items.reject_orphans_before(None)?;
    drop((keys, items));
    transaction.rollback()?;
    Ok(meta)
}

fn check_format(connection: &Connection) -> Result<(), StoreLoadError> {
    let application: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if application != APPLICATION_ID {
        return Err(StoreLoadError::Corrupt(
            "it is an SQLite file of another program".into(),
        ));
    }
    let format: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if format > FORMAT_VERSION {
        return Err(StoreLoadError::NewerFormat(format));
    }
    if format < FORMAT_VERSION {
        return Err(StoreLoadError::Corrupt(format!(
            "format {format} does not exist"
        )));
    }
    let mut statement = connection.prepare("SELECT sql FROM sqlite_schema ORDER BY name")?;
    let tables = statement.query_map([], |row| row.get::<_, Option<String>>(0))?;
    let tables: Vec<_> = tables.collect::<Result<_, _>>()?;
    if tables
        .iter()
        .map(Option::as_deref)
        .eq(schema::CREATE_TABLES.map(Some))
    {
        return Ok(());
    }
    Err(StoreLoadError::Corrupt(
        "its tables are not those of a store".into(),
    ))
}

fn corrupt_key_error(key: &[u8], problem: &str) -> StoreLoadError {
    const MAX_SHOWN_BYTES: usize = 64;
    let shown = key[..key.len().min(MAX_SHOWN_BYTES)].escape_ascii();
    let cut = if key.len() > MAX_SHOWN_BYTES {
        "…"
    } else {
        ""
    };
    StoreLoadError::Corrupt(format!("key '{shown}{cut}': {problem}"))
}

/// Row of a key that is being loaded.
struct LoadedKey<'a> {
    key: &'a [u8],
    value_type: ValueType,
    value: Option<&'a [u8]>,
    deadline: Option<u64>,
}

impl<'a> LoadedKey<'a> {
    fn read(key: &'a [u8], row: &'a Row<'_>) -> Result<Self, &'static str> {
        const UNREADABLE: &str = "its row is unreadable";
        let column = |index| row.get_ref(index).map_err(|_| UNREADABLE);
        let int = |index| column(index)?.as_i64().map_err(|_| UNREADABLE);
        let value_type = ValueType::from_disk_number(int(1)?).ok_or("its type does not exist")?;
        let value = column(2)?.as_blob_or_null().map_err(|_| UNREADABLE)?;
        let deadline = column(4)?
            .as_i64_or_null()
            .map_err(|_| UNREADABLE)?
            .map(i64::cast_unsigned);
        if i64::from(schema::key_checksum(key, value_type, value)) != int(3)? {
            return Err("its row does not match its checksum");
        }
        if i64::from(schema::deadline_checksum(key, deadline)) != int(5)? {
            return Err("its deadline does not match its checksum");
        }
        Ok(Self {
            key,
            value_type,
            value,
            deadline,
        })
    }

    fn value(&self, items: &mut ItemCursor<'_>) -> Result<StoredValue, ValueLoadError> {
        let value = match self.value_type {
            ValueType::String => {
                let text = self.value.ok_or("its value is missing");
                StoredValue::String(StringValue::from(text.map_err(ValueLoadError::Row)?))
            }
            ValueType::Hash => {
                let mut hash = Hash::default();
                items.visit_items_of(self.key, |field, value| {
                    hash.insert(field.into(), value.into());
                    Ok(())
                })?;
                StoredValue::Hash(hash)
            }
            ValueType::Set => {
                let mut set = Set::default();
                items.visit_items_of(self.key, |member, _| {
                    set.insert(member.into(), ());
                    Ok(())
                })?;
                StoredValue::Set(set)
            }
            ValueType::ZSet => {
                let mut zset = ZSet::default();
                items.visit_items_of(self.key, |member, score| {
                    let score = decode_score(score).filter(|score| !score.is_nan());
                    zset.insert(member.into(), score.ok_or("a score is not a number")?);
                    Ok(())
                })?;
                StoredValue::ZSet(zset)
            }
            ValueType::List => StoredValue::List(Box::new(self.list(items)?)),
        };
        match value.is_empty_collection() {
            true => Err(ValueLoadError::Row("its items are missing")),
            false => Ok(value),
        }
    }

    fn list(&self, items: &mut ItemCursor<'_>) -> Result<List, ValueLoadError> {
        let mut list: VecDeque<SharedBytes> = VecDeque::new();
        let mut first = None;
        items.visit_items_of(self.key, |number, item| {
            let number = decode_item_number(number).ok_or("a list item has no number")?;
            let first = *first.get_or_insert(number);
            if first.checked_add_unsigned(list.len() as u64) != Some(number) {
                return Err("a list item is missing");
            }
            list.push_back(item.into());
            Ok(())
        })?;
        Ok(List::with_head_number(first.unwrap_or(0), list))
    }
}

/// Why the value of a key could not be loaded.
enum ValueLoadError {
    Row(&'static str),
    File(StoreLoadError),
}

impl From<rusqlite::Error> for ValueLoadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::File(error.into())
    }
}

/// Cursor over the item rows, positioned on the next row.
struct ItemCursor<'a>(Rows<'a>);

impl<'a> ItemCursor<'a> {
    fn new(mut rows: Rows<'a>) -> Result<Self, StoreLoadError> {
        rows.advance()?;
        Ok(Self(rows))
    }

    fn key(&self) -> Result<Option<&[u8]>, StoreLoadError> {
        self.0
            .get()
            .map(|row| Ok(row.get_ref(0)?.as_blob()?))
            .transpose()
    }

    fn visit_items_of(
        &mut self,
        key: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), &'static str>,
    ) -> Result<(), ValueLoadError> {
        const UNREADABLE: ValueLoadError = ValueLoadError::Row("an item's row is unreadable");
        while let Some(row) = self.0.get() {
            let blob = |index| {
                row.get_ref(index)
                    .ok()
                    .and_then(|column| column.as_blob().ok())
                    .ok_or(UNREADABLE)
            };
            if blob(0)? != key {
                break;
            }
            let (item, value) = (blob(1)?, blob(2)?);
            if row.get::<_, i64>(3).ok() != Some(i64::from(schema::item_checksum(key, item, value)))
            {
                return Err(ValueLoadError::Row("an item does not match its checksum"));
            }
            visit(item, value).map_err(ValueLoadError::Row)?;
            self.0.advance()?;
        }
        Ok(())
    }

    /// Rejects an item of a key before `key`, or any item at the end of the keys: the items of all earlier keys were
    /// visited, so this item has no key row.
    fn reject_orphans_before(&self, key: Option<&[u8]>) -> Result<(), StoreLoadError> {
        match self.key()? {
            Some(found) if key.is_none_or(|key| found < key) => Err(corrupt_key_error(
                found,
                "it has items but no row of its own",
            )),
            _ => Ok(()),
        }
    }
}
