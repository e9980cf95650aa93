//! The database as commands see it: keys that have not expired, at one moment in time.
//!
//! Invariants:
//! 1. `now` does not change during a command, a script or a transaction.
//! 2. A lookup never returns a key whose deadline has passed. The first lookup of such a key deletes it.
//! 3. Every change is in the journal, except volatile updates and changes of memory-only lists. Commands change
//!    collections only through [`JournaledCollection`], which records each change.
//! 4. No collection is empty between two commands.

use crate::edit::JournaledCollection;
use crate::error::{CommandError, WRONG_TYPE};
use crate::free;
use crate::journal::{self, Journal, JournalEntry};
use crate::keyspace::{KeyEntry, KeyPosition, ShardedDict};
use crate::pubsub::PubSubRegistry;
use crate::value::{Collection, SharedBytes, StringValue, Value, ValueType};

/// Effect of a new value on the deadline of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpireUpdate {
    /// The deadline stays (`KEEPTTL`, `INCR`).
    Keep,
    /// The deadline is removed.
    Clear,
    /// The deadline becomes this time, in ms since the Unix epoch.
    At(u64),
}

/// The keys, the journal of their changes, and the subscriptions.
#[derive(Default)]
pub struct Db {
    keys: ShardedDict,
    pub(crate) journal: Journal,
    pub(crate) pubsub: PubSubRegistry,
    /// Run id for `INFO`: it differs after each start of the engine.
    pub(crate) run_id: String,
    now: u64,
    /// Error that the writes of the running command get, if any.
    write_error: Option<CommandError>,
    /// Whether commands and options newer than Redis 6.2 are rejected.
    strict: bool,
    next_random: u64,
    /// Position of the key that was found last, because a command often reads and then changes the same key.
    last_found: KeyPosition,
}

impl Db {
    /// Creates an empty database.
    pub fn new(strict: bool, seed: u64, pubsub: PubSubRegistry) -> Self {
        Self {
            strict,
            next_random: seed | 1,
            pubsub,
            ..Self::default()
        }
    }

    /// Time of the running command, in ms since the Unix epoch.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Starts a command, script or transaction: sets its time and the error that its writes get, if any.
    pub fn begin_command(&mut self, now: u64, refusal: Option<CommandError>) {
        self.now = now;
        self.write_error = refusal;
        self.journal.set_volatile_updates(false);
    }

    /// Returns an error if the running command, script or transaction may not write.
    pub fn check_writable(&self) -> Result<(), CommandError> {
        self.write_error.clone().map_or(Ok(()), Err)
    }

    /// Returns an error if strict mode is on and `option` came with a Redis version (`since`) after 6.2.
    pub fn require_redis_version(&self, since: &str, option: &str) -> Result<(), CommandError> {
        if self.strict && crate::table::is_newer_than_6_2(since) {
            return Err(CommandError::new(format!(
                "ERR {option} came with Redis {since}; strict mode allows 6.2 and older"
            )));
        }
        Ok(())
    }

    /// Whether strict mode is on.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// Next pseudo-random number for random picks. Not suitable for secrets.
    pub fn rng_state(&mut self) -> u64 {
        self.next_random ^= self.next_random << 13;
        self.next_random ^= self.next_random >> 7;
        self.next_random ^= self.next_random << 17;
        self.next_random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 1
    }

    /// Position of a key that has not expired. Deletes the key if it has expired.
    fn find(&mut self, key: &[u8]) -> Option<KeyPosition> {
        let place = match self.keys.is_key_at(key, self.last_found) {
            true => self.last_found,
            false => self.keys.find(key)?,
        };
        self.last_found = place;
        if self.keys.at(place).is_expired(self.now) {
            free::free_value(self.remove_at(place).value);
            return None;
        }
        Some(place)
    }

    /// Entry of a key that has not expired.
    pub fn entry(&mut self, key: &[u8]) -> Option<&KeyEntry> {
        self.find(key).map(|place| self.keys.at(place))
    }

    /// Whether a key exists and has not expired.
    pub fn contains(&mut self, key: &[u8]) -> bool {
        self.find(key).is_some()
    }

    /// String value of a key.
    pub fn text(&mut self, key: &[u8]) -> Result<Option<&StringValue>, CommandError> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    /// Stores a string value, whatever the key held before.
    pub fn set_string(&mut self, key: &[u8], text: StringValue, expiry: ExpireUpdate) {
        let value = Value::String(text);
        let mut renewed = false;
        let place = match self.find(key) {
            Some(place) => {
                let (key, old) = self.keys.value_at_mut(place);
                let old = std::mem::replace(old, value);
                renewed = matches!(old, Value::String(_));
                if !renewed {
                    self.journal
                        .push(|| JournalEntry::RemoveKey { key: key.clone() });
                    free::free_value(old);
                }
                place
            }
            None => self.keys.insert_new(key.into(), value),
        };
        match expiry {
            ExpireUpdate::Keep => {}
            ExpireUpdate::Clear => self.keys.set_deadline(place, None),
            ExpireUpdate::At(deadline) => self.keys.set_deadline(place, Some(deadline)),
        }
        let deadline = self.keys.at(place).deadline();
        let (key, value) = self.keys.value_at_mut(place);
        let header = || JournalEntry::PutKey {
            key: key.clone(),
            kind: ValueType::String,
            deadline,
            text: value.text().cloned(),
        };
        if renewed {
            self.journal.renew(header);
        } else {
            self.journal.push(header);
        }
    }

    /// Collection of a key, to read.
    pub fn read<C: Collection>(&mut self, key: &[u8]) -> Result<Option<&C>, CommandError> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(value) => C::of(value).map(Some).ok_or(WRONG_TYPE),
        }
    }

    /// Changes the collection of a key, if the key exists. Deletes the key if the collection is empty afterwards.
    pub fn update_existing<C: Collection, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut JournaledCollection<'_, C>) -> Result<R, CommandError>,
    ) -> Result<Option<R>, CommandError> {
        let place = self.find(key);
        place.map(|place| self.update_at(place, change)).transpose()
    }

    /// Changes the collection of a key. Creates the collection if the key does not exist.
    pub fn edit<C: Collection, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut JournaledCollection<'_, C>) -> Result<R, CommandError>,
    ) -> Result<R, CommandError> {
        if let Some(place) = self.find(key) {
            return self.update_at(place, change);
        }
        let mut collection = C::default();
        let key: SharedBytes = key.into();
        self.journal.push(|| JournalEntry::PutKey {
            key: key.clone(),
            kind: C::TYPE,
            deadline: None,
            text: None,
        });
        let mut noted = NewKeyGuard {
            key: &key,
            journal: &mut self.journal,
            created: false,
        };
        let result = change(&mut JournaledCollection::new(
            &key,
            &mut collection,
            noted.journal,
        ));
        noted.created = !collection.has_no_items();
        drop(noted);
        if !collection.has_no_items() {
            self.keys.insert_new(key, collection.into_value());
        }
        result
    }

    fn update_at<C: Collection, R>(
        &mut self,
        place: KeyPosition,
        change: impl FnOnce(&mut JournaledCollection<'_, C>) -> Result<R, CommandError>,
    ) -> Result<R, CommandError> {
        let (key, value) = self.keys.value_at_mut(place);
        let collection = C::from_value_mut(value).ok_or(WRONG_TYPE)?;
        let result = change(&mut JournaledCollection::new(
            key,
            collection,
            &mut self.journal,
        ));
        if collection.has_no_items() {
            self.remove_at(place);
        }
        result
    }

    /// Replaces the whole value of a key, whatever it held before. An empty collection deletes the key.
    pub fn put(&mut self, key: &[u8], mut value: Value, deadline: Option<u64>) {
        if let Some(place) = self.find(key) {
            free::free_value(self.remove_at(place).value);
        }
        // The value may come from a memory-only list (`COPY`, `RENAME`). The list of the new key is written to disk.
        if let Value::List(list) = &mut value {
            list.set_memory_only(false);
        }
        if value.has_no_items() {
            return;
        }
        let key: SharedBytes = key.into();
        journal::push_whole_value(&key, &value, deadline, &mut self.journal);
        self.insert_unjournaled(key, value, deadline);
    }

    /// Removes a key and returns its value and deadline.
    pub fn take(&mut self, key: &[u8]) -> Option<(Value, Option<u64>)> {
        let place = self.find(key)?;
        let entry = self.remove_at(place);
        let deadline = entry.deadline();
        Some((entry.value, deadline))
    }

    /// Deletes a key. Returns whether it existed.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        match self.find(key) {
            Some(place) => {
                free::free_value(self.remove_at(place).value);
                true
            }
            None => false,
        }
    }

    fn remove_at(&mut self, place: KeyPosition) -> KeyEntry {
        let (key, entry) = self.keys.remove(place);
        self.journal.push(|| JournalEntry::RemoveKey { key });
        entry
    }

    /// Sets or removes the deadline of a key. As in Redis, a deadline that has passed already deletes the key. Returns
    /// whether the key existed.
    pub fn set_deadline(&mut self, key: &[u8], deadline: Option<u64>) -> bool {
        let Some(place) = self.find(key) else {
            return false;
        };
        if deadline.is_some_and(|deadline| deadline <= self.now) {
            free::free_value(self.remove_at(place).value);
            return true;
        }
        self.keys.set_deadline(place, deadline);
        let (key, value) = self.keys.value_at_mut(place);
        if !value.is_memory_only() {
            self.journal.renew(|| JournalEntry::SetDeadline {
                key: key.clone(),
                deadline,
            });
        }
        true
    }

    /// Makes the list of a key memory-only: its rows are deleted from the file, and its later changes are not written.
    /// The list is lost when the engine ends.
    pub fn set_memory_only(&mut self, key: &[u8]) {
        let Some(place) = self.find(key) else {
            return;
        };
        if let (key, Value::List(list)) = self.keys.value_at_mut(place)
            && !list.is_memory_only()
        {
            list.set_memory_only(true);
            self.journal
                .push(|| JournalEntry::RemoveKey { key: key.clone() });
        }
    }

    /// Deletes all keys.
    pub fn clear(&mut self) {
        let keys = std::mem::take(&mut self.keys);
        self.journal.push(|| JournalEntry::RemoveAllKeys);
        // A few keys can hold very many items, so the dict is always freed in the background.
        free::free_in_background(keys);
    }

    /// Inserts a key that is known to be absent, without a journal entry.
    pub(crate) fn insert_unjournaled(
        &mut self,
        key: SharedBytes,
        value: Value,
        deadline: Option<u64>,
    ) {
        let place = self.keys.insert_new(key, value);
        if deadline.is_some() {
            self.keys.set_deadline(place, deadline);
        }
    }

    /// Deletes expired keys, checking at most `budget` index entries. Returns whether there may be more.
    pub fn sweep(&mut self, budget: usize) -> bool {
        let mut left = budget;
        while let Some(place) = self.keys.next_expired(self.now, &mut left) {
            free::free_value(self.remove_at(place).value);
        }
        left == 0
    }

    /// All keys, including expired keys that are not deleted yet.
    pub fn keys(&self) -> &ShardedDict {
        &self.keys
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
    use crate::value::Hash;

    #[test]
    fn a_change_that_panics_leaves_no_new_key_in_the_journal() {
        let mut db = Db::default();
        db.journal.enable();
        let change = std::panic::AssertUnwindSafe(|| {
            db.edit::<Hash, ()>(b"k", |hash| {
                hash.insert(b"f", b"v");
                panic!("in the middle");
            })
        });
        assert!(std::panic::catch_unwind(change).is_err());
        assert!(!db.contains(b"k"));
        let last = db.journal.take().into_iter().flatten().last();
        assert!(
            matches!(last, Some(JournalEntry::RemoveKey { .. })),
            "{last:?}"
        );
    }
}
