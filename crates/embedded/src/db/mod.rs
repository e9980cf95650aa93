//! The database as commands see it: keys that have not expired, at one moment in time.
//!
//! Invariants:
//! 1. `now` does not change during a command, a script or a transaction.
//! 2. A lookup never returns a key whose deadline has passed. The first lookup of such a key deletes it.
//! 3. Every change is in the journal, except volatile updates and changes of memory-only lists. Commands change
//!    collections only through [`JournaledCollection`], which records each change.
//! 4. No collection is empty between two commands.

pub mod journal;
pub mod journaled_collection;
pub mod row_codec;
pub mod sharded_dict;

use self::journal::{Journal, JournalEntry, KeyRow};
use crate::db::journaled_collection::JournaledCollection;
use crate::db::sharded_dict::{KeyEntry, KeyPosition, ShardedDict};
use crate::engine::lazyfree;
use crate::error::{CommandError, WRONG_TYPE};
use crate::pubsub::PubSubRegistry;
use crate::values::{Collection, SharedBytes, StoredValue, StringValue, ValueType};

/// Effect of a new value on the deadline of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpireUpdate {
    /// The deadline stays (`KEEPTTL`, `INCR`).
    Keep,
    Clear,
    /// The deadline becomes this time, in ms since the Unix epoch.
    At(u64),
}

/// The keys, the journal of their changes, and the subscriptions.
#[derive(Default)]
pub struct Db {
    dict: ShardedDict,
    pub(crate) journal: Journal,
    pub(crate) pubsub: PubSubRegistry,
    /// Run id for `INFO`: it differs after each start of the engine.
    pub(crate) run_id: String,
    now: u64,
    /// Error that the writes of the running command get, if any.
    write_error: Option<CommandError>,
    /// Number of rejected writes since the last call of `take_rejected_writes`.
    rejected_writes: u64,
    /// Whether commands and options newer than Redis 6.2 are rejected.
    strict: bool,
    /// Position of the key that was found last, because a command often reads and then changes the same key.
    last_found: KeyPosition,
}

impl Db {
    pub fn new(strict: bool, pubsub: PubSubRegistry) -> Self {
        Self {
            strict,
            pubsub,
            ..Self::default()
        }
    }

    /// Time of the running command, in ms since the Unix epoch.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Starts a command, script or transaction: sets its time and the error that its writes get, if any.
    pub fn begin_command(&mut self, now: u64, write_error: Option<CommandError>) {
        self.now = now;
        self.write_error = write_error;
        self.journal.set_volatile_updates(false);
    }

    /// Returns an error if the running command, script or transaction may not write.
    pub fn check_writable(&mut self) -> Result<(), CommandError> {
        let Some(error) = &self.write_error else {
            return Ok(());
        };
        self.rejected_writes += 1;
        Err(error.clone())
    }

    /// Number of writes that were rejected since the last call.
    pub fn take_rejected_writes(&mut self) -> u64 {
        std::mem::take(&mut self.rejected_writes)
    }

    /// Returns an error if strict mode is on and `option` came with a Redis version (`since`) after 6.2.
    pub fn require_redis_version(&self, since: &str, option: &str) -> Result<(), CommandError> {
        if self.strict && crate::commands::table::is_newer_than_6_2(since) {
            return Err(CommandError::new(format!(
                "ERR {option} came with Redis {since}; strict mode allows 6.2 and older"
            )));
        }
        Ok(())
    }

    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// Position of a key that has not expired. Deletes the key if it has expired.
    fn find(&mut self, key: &[u8]) -> Option<KeyPosition> {
        let position = match self.dict.is_key_at(key, self.last_found) {
            true => self.last_found,
            false => self.dict.find(key)?,
        };
        self.last_found = position;
        if self.dict.entry_at(position).is_expired(self.now) {
            lazyfree::free_value(self.remove_at(position).value);
            return None;
        }
        Some(position)
    }

    /// Entry of a key that has not expired.
    pub fn entry(&mut self, key: &[u8]) -> Option<&KeyEntry> {
        self.find(key).map(|position| self.dict.entry_at(position))
    }

    /// Whether a key exists and has not expired.
    pub fn contains(&mut self, key: &[u8]) -> bool {
        self.find(key).is_some()
    }

    pub fn get_string(&mut self, key: &[u8]) -> Result<Option<&StringValue>, CommandError> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(StoredValue::String(text)) => Ok(Some(text)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    /// Stores a string value, whatever the key held before.
    pub fn set_string(&mut self, key: &[u8], text: StringValue, expiry: ExpireUpdate) {
        let value = StoredValue::String(text);
        let mut replaces_string = false;
        let position = match self.find(key) {
            Some(position) => {
                let (key, old) = self.dict.value_at_mut(position);
                let old = std::mem::replace(old, value);
                replaces_string = matches!(old, StoredValue::String(_));
                if !replaces_string {
                    self.journal
                        .push(|| JournalEntry::RemoveKey { key: key.clone() });
                    lazyfree::free_value(old);
                }
                position
            }
            None => self.dict.insert_new(key.into(), value),
        };
        match expiry {
            ExpireUpdate::Keep => {}
            ExpireUpdate::Clear => self.dict.set_deadline(position, None),
            ExpireUpdate::At(deadline) => self.dict.set_deadline(position, Some(deadline)),
        }
        let deadline = self.dict.entry_at(position).deadline();
        let (key, value) = self.dict.value_at_mut(position);
        let entry = || JournalEntry::PutKey {
            key: key.clone(),
            row: KeyRow {
                value_type: ValueType::String,
                deadline,
                string: value.as_string().cloned(),
            },
        };
        if replaces_string {
            self.journal.push_update(entry);
        } else {
            self.journal.push(entry);
        }
    }

    /// Collection of a key, to read.
    pub fn get_collection<C: Collection>(
        &mut self,
        key: &[u8],
    ) -> Result<Option<&C>, CommandError> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(value) => C::from_value(value).map(Some).ok_or(WRONG_TYPE),
        }
    }

    /// Changes the collection of a key, if the key exists. Deletes the key if the collection is empty afterwards.
    pub fn update_existing<C: Collection, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut JournaledCollection<'_, C>) -> Result<R, CommandError>,
    ) -> Result<Option<R>, CommandError> {
        let position = self.find(key);
        position
            .map(|position| self.update_at(position, change))
            .transpose()
    }

    /// Changes the collection of a key. Creates the collection if the key does not exist.
    pub fn update_or_create<C: Collection, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut JournaledCollection<'_, C>) -> Result<R, CommandError>,
    ) -> Result<R, CommandError> {
        if let Some(position) = self.find(key) {
            return self.update_at(position, change);
        }
        let mut collection = C::default();
        let key: SharedBytes = key.into();
        self.journal.push(|| JournalEntry::PutKey {
            key: key.clone(),
            row: KeyRow {
                value_type: C::TYPE,
                deadline: None,
                string: None,
            },
        });
        let mut new_key = NewKeyGuard {
            key: &key,
            journal: &mut self.journal,
            created: false,
        };
        let result = change(&mut JournaledCollection::new(
            &key,
            &mut collection,
            new_key.journal,
        ));
        new_key.created = collection.len() > 0;
        drop(new_key);
        if collection.len() > 0 {
            self.dict.insert_new(key, collection.into_value());
        }
        result
    }

    fn update_at<C: Collection, R>(
        &mut self,
        position: KeyPosition,
        change: impl FnOnce(&mut JournaledCollection<'_, C>) -> Result<R, CommandError>,
    ) -> Result<R, CommandError> {
        let (key, value) = self.dict.value_at_mut(position);
        let collection = C::from_value_mut(value).ok_or(WRONG_TYPE)?;
        let result = change(&mut JournaledCollection::new(
            key,
            collection,
            &mut self.journal,
        ));
        if collection.len() == 0 {
            self.remove_at(position);
        }
        result
    }

    /// Replaces the whole value of a key, whatever it held before. An empty collection deletes the key.
    pub fn replace_value(&mut self, key: &[u8], mut value: StoredValue, deadline: Option<u64>) {
        if let Some(position) = self.find(key) {
            lazyfree::free_value(self.remove_at(position).value);
        }
        // The value may come from a memory-only list (`COPY`, `RENAME`). The list of the new key is written to disk.
        if let StoredValue::List(list) = &mut value {
            list.set_memory_only(false);
        }
        if value.is_empty_collection() {
            return;
        }
        let key: SharedBytes = key.into();
        journal::push_whole_value(&key, &value, deadline, &mut self.journal);
        self.insert_unjournaled(key, value, deadline);
    }

    pub fn take_key(&mut self, key: &[u8]) -> Option<(StoredValue, Option<u64>)> {
        let position = self.find(key)?;
        let entry = self.remove_at(position);
        let deadline = entry.deadline();
        Some((entry.value, deadline))
    }

    /// Deletes a key. Returns whether it existed.
    pub fn delete_key(&mut self, key: &[u8]) -> bool {
        match self.find(key) {
            Some(position) => {
                lazyfree::free_value(self.remove_at(position).value);
                true
            }
            None => false,
        }
    }

    fn remove_at(&mut self, position: KeyPosition) -> KeyEntry {
        let (key, entry) = self.dict.remove(position);
        self.journal.push(|| JournalEntry::RemoveKey { key });
        entry
    }

    /// Sets or removes the deadline of a key. As in Redis, a deadline that has passed already deletes the key. Returns
    /// whether the key existed.
    pub fn set_deadline(&mut self, key: &[u8], deadline: Option<u64>) -> bool {
        let Some(position) = self.find(key) else {
            return false;
        };
        if deadline.is_some_and(|deadline| deadline <= self.now) {
            lazyfree::free_value(self.remove_at(position).value);
            return true;
        }
        self.dict.set_deadline(position, deadline);
        let (key, value) = self.dict.value_at_mut(position);
        if !value.is_memory_only() {
            self.journal.push_update(|| JournalEntry::SetDeadline {
                key: key.clone(),
                deadline,
            });
        }
        true
    }

    /// Makes the list of a key memory-only: its rows are deleted from the file, and its later changes are not written.
    /// The list is lost when the engine ends.
    pub fn set_memory_only(&mut self, key: &[u8]) {
        let Some(position) = self.find(key) else {
            return;
        };
        if let (key, StoredValue::List(list)) = self.dict.value_at_mut(position)
            && !list.is_memory_only()
        {
            list.set_memory_only(true);
            self.journal
                .push(|| JournalEntry::RemoveKey { key: key.clone() });
        }
    }

    pub fn clear(&mut self) {
        let keys = std::mem::take(&mut self.dict);
        self.journal.push(|| JournalEntry::RemoveAllKeys);
        // A few keys can hold very many items, so the dict is always freed in the background.
        lazyfree::free_in_background(keys);
    }

    /// Inserts a key that is known to be absent, without a journal entry.
    pub(crate) fn insert_unjournaled(
        &mut self,
        key: SharedBytes,
        value: StoredValue,
        deadline: Option<u64>,
    ) {
        let position = self.dict.insert_new(key, value);
        if deadline.is_some() {
            self.dict.set_deadline(position, deadline);
        }
    }

    /// Deletes expired keys, checking at most `budget` index entries. Returns whether there may be more.
    pub fn delete_expired(&mut self, budget: usize) -> bool {
        let mut remaining = budget;
        while let Some(position) = self.dict.next_expired(self.now, &mut remaining) {
            lazyfree::free_value(self.remove_at(position).value);
        }
        remaining == 0
    }

    /// All keys, including expired keys that are not deleted yet.
    pub fn dict(&self) -> &ShardedDict {
        &self.dict
    }
}

/// Cancels the journal entry of a new key if the key does not come to exist.
///
/// `update_or_create` records the row of a new collection before it runs the change, because the rows of its items must
/// follow. If the change panics or leaves the collection empty, this guard records `RemoveKey` on drop. Otherwise the
/// file would contain a key without items, which the loader reports as corruption.
struct NewKeyGuard<'a> {
    key: &'a SharedBytes,
    journal: &'a mut Journal,
    created: bool,
}

impl Drop for NewKeyGuard<'_> {
    fn drop(&mut self) {
        if !self.created {
            let key = self.key.clone();
            self.journal.push(|| JournalEntry::RemoveKey { key });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Hash;

    #[test]
    fn a_change_that_panics_leaves_no_new_key_in_the_journal() {
        let mut db = Db::default();
        db.journal.enable();
        let change = std::panic::AssertUnwindSafe(|| {
            db.update_or_create::<Hash, ()>(b"k", |hash| {
                hash.insert(b"f", b"v");
                panic!("in the middle");
            })
        });
        assert!(std::panic::catch_unwind(change).is_err());
        assert!(!db.contains(b"k"));
        let last = db.journal.take_entries().into_iter().flatten().last();
        assert!(
            matches!(last, Some(JournalEntry::RemoveKey { .. })),
            "{last:?}"
        );
    }
}
