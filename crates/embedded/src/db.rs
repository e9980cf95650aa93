//! The database that commands work on: visible keys at one moment, changed only through here.
//!
//! Always true:
//! 1. `now` stands still during a command, a script and a transaction.
//! 2. A key whose deadline is over is not there for any reader, and is dropped by the first one to notice.
//! 3. Every change is in the journal, unless the caller said that it is fleeting or that the list is kept in memory only;
//!    a command cannot forget it, since values are only lent for change through [`Edit`], which notes it.
//! 4. No collection is empty between two commands.

use crate::edit::JournaledCollection;
use crate::error::{CommandError, WRONG_TYPE};
use crate::free;
use crate::journal::{self, Journal, JournalEntry};
use crate::keyspace::{KeyEntry, KeyPosition, ShardedDict};
use crate::pubsub::PubSubRegistry;
use crate::value::{Collection, SharedBytes, StringValue, Value, ValueType};

/// What happens to a key's deadline when its value is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpireUpdate {
    /// It stays (`KEEPTTL`, `INCR`).
    Keep,
    /// It goes.
    Clear,
    /// It becomes this, in ms.
    At(u64),
}

/// Keys, their changes, and who listens.
#[derive(Default)]
pub struct Db {
    keys: ShardedDict,
    pub(crate) journal: Journal,
    pub(crate) pubsub: PubSubRegistry,
    /// What `INFO` tells apart from an earlier life of the same data.
    pub(crate) run_id: String,
    now: u64,
    /// Why writes are refused, if they are.
    write_error: Option<CommandError>,
    /// Refuse what Redis 6.2 does not know.
    strict: bool,
    next_random: u64,
    /// The key that was found last: a step often reads and then changes the same one.
    last_found: KeyPosition,
}

impl Db {
    /// An empty database.
    pub fn new(strict: bool, seed: u64, pubsub: PubSubRegistry) -> Self {
        Self {
            strict,
            next_random: seed | 1,
            pubsub,
            ..Self::default()
        }
    }

    /// The time of the running command.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Begins a command, script or transaction: its time, and why it may not write, if so.
    pub fn begin_command(&mut self, now: u64, refusal: Option<CommandError>) {
        self.now = now;
        self.write_error = refusal;
        self.journal.set_volatile_updates(false);
    }

    /// Whether the running command, script or transaction may change anything.
    pub fn check_writable(&self) -> Result<(), CommandError> {
        self.write_error.clone().map_or(Ok(()), Err)
    }

    /// Says that an option came with Redis `since`; refused in strict mode when that is after 6.2.
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

    /// A random number for picks; nothing secret depends on it.
    pub fn rng_state(&mut self) -> u64 {
        self.next_random ^= self.next_random << 13;
        self.next_random ^= self.next_random >> 7;
        self.next_random ^= self.next_random << 17;
        self.next_random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 1
    }

    /// Where a visible key is; an expired one is dropped on the way.
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

    /// The entry of a visible key.
    pub fn entry(&mut self, key: &[u8]) -> Option<&KeyEntry> {
        self.find(key).map(|place| self.keys.at(place))
    }

    /// Whether a key is visible.
    pub fn contains(&mut self, key: &[u8]) -> bool {
        self.find(key).is_some()
    }

    /// The string a key holds.
    pub fn text(&mut self, key: &[u8]) -> Result<Option<&StringValue>, CommandError> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    /// Makes a key hold a string.
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

    /// The collection a key holds.
    pub fn read<C: Collection>(&mut self, key: &[u8]) -> Result<Option<&C>, CommandError> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(value) => C::of(value).map(Some).ok_or(WRONG_TYPE),
        }
    }

    /// Lends the collection a key holds for change; nothing happens when there is none. A key left without items goes.
    pub fn update_existing<C: Collection, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut JournaledCollection<'_, C>) -> Result<R, CommandError>,
    ) -> Result<Option<R>, CommandError> {
        let place = self.find(key);
        place.map(|place| self.update_at(place, change)).transpose()
    }

    /// Lends the collection a key holds for change, making an empty one where there is none.
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

    /// Makes a key hold a whole value, whatever it held; an empty collection removes it.
    pub fn put(&mut self, key: &[u8], mut value: Value, deadline: Option<u64>) {
        if let Some(place) = self.find(key) {
            free::free_value(self.remove_at(place).value);
        }
        // It may be the copy of one.
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

    /// Takes a visible key out whole, with its deadline.
    pub fn take(&mut self, key: &[u8]) -> Option<(Value, Option<u64>)> {
        let place = self.find(key)?;
        let entry = self.remove_at(place);
        let deadline = entry.deadline();
        Some((entry.value, deadline))
    }

    /// Drops a key. Whether it was visible.
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

    /// Gives a visible key a deadline, or none; one that is over already removes it, as Redis does. Whether the key
    /// was there.
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

    /// Keeps the list of a key in memory only: the file has none of it from here on, and it ends with the engine.
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

    /// Drops everything.
    pub fn clear(&mut self) {
        let keys = std::mem::take(&mut self.keys);
        self.journal.push(|| JournalEntry::RemoveAllKeys);
        // Few keys can hold very many items.
        free::free_in_background(keys);
    }

    /// Adds a key that is not there, as it was read from disk: no journal.
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

    /// Drops expired keys, looking at no more than `budget` of them. Whether there may be more.
    pub fn sweep(&mut self, budget: usize) -> bool {
        let mut left = budget;
        while let Some(place) = self.keys.next_expired(self.now, &mut left) {
            free::free_value(self.remove_at(place).value);
        }
        left == 0
    }

    /// All keys, to read only.
    pub fn keys(&self) -> &ShardedDict {
        &self.keys
    }
}

/// A new key that is in the journal and not yet in the keyspace. Unless it stays the journal forgets it, also when the
/// change panics: a key without items in the file would be taken for damage at the next start.
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
