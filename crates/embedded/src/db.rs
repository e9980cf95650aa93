//! The database that commands work on: visible keys at one moment, changed only through here.
//!
//! Always true:
//! 1. `now` stands still during a command, a script and a transaction.
//! 2. A key whose deadline is over is not there for any reader, and is dropped by the first one to notice.
//! 3. Every change is in the journal, unless the caller said that it is fleeting or that the list is kept in memory only;
//!    a command cannot forget it, since values are only lent for change through [`Edit`], which notes it.
//! 4. No collection is empty between two commands.

use crate::edit::Edit;
use crate::error::{Error, WRONG_TYPE};
use crate::free;
use crate::journal::{self, Effect, Journal};
use crate::keyspace::{Entry, Keyspace, Place};
use crate::pubsub::Hub;
use crate::value::{Blob, Collection, Kind, Text, Value};

/// What happens to a key's deadline when its value is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
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
    keys: Keyspace,
    pub(crate) journal: Journal,
    pub(crate) hub: Hub,
    /// What `INFO` tells apart from an earlier life of the same data.
    pub(crate) run_id: String,
    now: u64,
    /// Why writes are refused, if they are.
    refusal: Option<Error>,
    /// Refuse what Redis 6.2 does not know.
    strict: bool,
    random: u64,
    /// The key that was found last: a step often reads and then changes the same one.
    last: Place,
}

impl Db {
    /// An empty database.
    pub fn new(strict: bool, seed: u64, hub: Hub) -> Self {
        Self {
            strict,
            random: seed | 1,
            hub,
            ..Self::default()
        }
    }

    /// The time of the running command.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Begins a command, script or transaction: its time, and why it may not write, if so.
    pub fn begin(&mut self, now: u64, refusal: Option<Error>) {
        self.now = now;
        self.refusal = refusal;
        self.journal.set_fleeting(false);
    }

    /// Whether the running command, script or transaction may change anything.
    pub fn may_write(&self) -> Result<(), Error> {
        self.refusal.clone().map_or(Ok(()), Err)
    }

    /// Says that an option came with Redis `since`; refused in strict mode when that is after 6.2.
    pub fn needs(&self, since: &str, option: &str) -> Result<(), Error> {
        if self.strict && crate::table::is_newer_than_6_2(since) {
            return Err(Error::new(format!(
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
    pub fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 1
    }

    /// Where a visible key is; an expired one is dropped on the way.
    fn find(&mut self, key: &[u8]) -> Option<Place> {
        let place = match self.keys.is_at(key, self.last) {
            true => self.last,
            false => self.keys.find(key)?,
        };
        self.last = place;
        if self.keys.at(place).is_expired(self.now) {
            free::value(self.remove(place).value);
            return None;
        }
        Some(place)
    }

    /// The entry of a visible key.
    pub fn entry(&mut self, key: &[u8]) -> Option<&Entry> {
        self.find(key).map(|place| self.keys.at(place))
    }

    /// Whether a key is visible.
    pub fn contains(&mut self, key: &[u8]) -> bool {
        self.find(key).is_some()
    }

    /// The string a key holds.
    pub fn text(&mut self, key: &[u8]) -> Result<Option<&Text>, Error> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    /// Makes a key hold a string.
    pub fn set_text(&mut self, key: &[u8], text: Text, expiry: Expiry) {
        let value = Value::Text(text);
        let mut renewed = false;
        let place = match self.find(key) {
            Some(place) => {
                let (key, old) = self.keys.at_mut(place);
                let old = std::mem::replace(old, value);
                renewed = matches!(old, Value::Text(_));
                if !renewed {
                    self.journal.push(|| Effect::Drop { key: key.clone() });
                    free::value(old);
                }
                place
            }
            None => self.keys.add(key.into(), value),
        };
        match expiry {
            Expiry::Keep => {}
            Expiry::Clear => self.keys.set_deadline(place, None),
            Expiry::At(deadline) => self.keys.set_deadline(place, Some(deadline)),
        }
        let deadline = self.keys.at(place).deadline();
        let (key, value) = self.keys.at_mut(place);
        let header = || Effect::Header {
            key: key.clone(),
            kind: Kind::Text,
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
    pub fn read<C: Collection>(&mut self, key: &[u8]) -> Result<Option<&C>, Error> {
        match self.entry(key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(value) => C::of(value).map(Some).ok_or(WRONG_TYPE),
        }
    }

    /// Lends the collection a key holds for change; nothing happens when there is none. A key left without items goes.
    pub fn edit_existing<C: Collection, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut Edit<'_, C>) -> Result<R, Error>,
    ) -> Result<Option<R>, Error> {
        let place = self.find(key);
        place.map(|place| self.edit_at(place, change)).transpose()
    }

    /// Lends the collection a key holds for change, making an empty one where there is none.
    pub fn edit<C: Collection, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut Edit<'_, C>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        if let Some(place) = self.find(key) {
            return self.edit_at(place, change);
        }
        let mut collection = C::default();
        let key: Blob = key.into();
        self.journal.push(|| Effect::Header {
            key: key.clone(),
            kind: C::KIND,
            deadline: None,
            text: None,
        });
        let mut noted = Noted {
            key: &key,
            journal: &mut self.journal,
            stays: false,
        };
        let result = change(&mut Edit::new(&key, &mut collection, noted.journal));
        noted.stays = !collection.has_no_items();
        drop(noted);
        if !collection.has_no_items() {
            self.keys.add(key, collection.into_value());
        }
        result
    }

    fn edit_at<C: Collection, R>(
        &mut self,
        place: Place,
        change: impl FnOnce(&mut Edit<'_, C>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let (key, value) = self.keys.at_mut(place);
        let collection = C::of_mut(value).ok_or(WRONG_TYPE)?;
        let result = change(&mut Edit::new(key, collection, &mut self.journal));
        if collection.has_no_items() {
            self.remove(place);
        }
        result
    }

    /// Makes a key hold a whole value, whatever it held; an empty collection removes it.
    pub fn put(&mut self, key: &[u8], mut value: Value, deadline: Option<u64>) {
        if let Some(place) = self.find(key) {
            free::value(self.remove(place).value);
        }
        // It may be the copy of one.
        if let Value::List(list) = &mut value {
            list.set_in_memory(false);
        }
        if value.has_no_items() {
            return;
        }
        let key: Blob = key.into();
        journal::whole(&key, &value, deadline, &mut self.journal);
        self.load(key, value, deadline);
    }

    /// Takes a visible key out whole, with its deadline.
    pub fn take(&mut self, key: &[u8]) -> Option<(Value, Option<u64>)> {
        let place = self.find(key)?;
        let entry = self.remove(place);
        let deadline = entry.deadline();
        Some((entry.value, deadline))
    }

    /// Drops a key. Whether it was visible.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        match self.find(key) {
            Some(place) => {
                free::value(self.remove(place).value);
                true
            }
            None => false,
        }
    }

    fn remove(&mut self, place: Place) -> Entry {
        let (key, entry) = self.keys.remove(place);
        self.journal.push(|| Effect::Drop { key });
        entry
    }

    /// Gives a visible key a deadline, or none; one that is over already removes it, as Redis does. Whether the key
    /// was there.
    pub fn set_deadline(&mut self, key: &[u8], deadline: Option<u64>) -> bool {
        let Some(place) = self.find(key) else {
            return false;
        };
        if deadline.is_some_and(|deadline| deadline <= self.now) {
            free::value(self.remove(place).value);
            return true;
        }
        self.keys.set_deadline(place, deadline);
        let (key, value) = self.keys.at_mut(place);
        if !value.is_in_memory() {
            self.journal.renew(|| Effect::Deadline {
                key: key.clone(),
                deadline,
            });
        }
        true
    }

    /// Keeps the list of a key in memory only: the file has none of it from here on, and it ends with the engine.
    pub fn keep_in_memory(&mut self, key: &[u8]) {
        let Some(place) = self.find(key) else {
            return;
        };
        if let (key, Value::List(list)) = self.keys.at_mut(place)
            && !list.is_in_memory()
        {
            list.set_in_memory(true);
            self.journal.push(|| Effect::Drop { key: key.clone() });
        }
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        let keys = std::mem::take(&mut self.keys);
        self.journal.push(|| Effect::Clear);
        // Few keys can hold very many items.
        free::aside(keys);
    }

    /// Adds a key that is not there, as it was read from disk: no journal.
    pub(crate) fn load(&mut self, key: Blob, value: Value, deadline: Option<u64>) {
        let place = self.keys.add(key, value);
        if deadline.is_some() {
            self.keys.set_deadline(place, deadline);
        }
    }

    /// Drops expired keys, looking at no more than `budget` of them. Whether there may be more.
    pub fn sweep(&mut self, budget: usize) -> bool {
        let mut left = budget;
        while let Some(place) = self.keys.next_expired(self.now, &mut left) {
            free::value(self.remove(place).value);
        }
        left == 0
    }

    /// All keys, to read only.
    pub fn keys(&self) -> &Keyspace {
        &self.keys
    }
}

/// A new key that is in the journal and not yet in the keyspace. Unless it stays the journal forgets it, also when the
/// change panics: a key without items in the file would be taken for damage at the next start.
struct Noted<'a> {
    key: &'a Blob,
    journal: &'a mut Journal,
    stays: bool,
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        if !self.stays {
            let key = self.key.clone();
            self.journal.push(|| Effect::Drop { key });
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
        db.journal.switch_on();
        let change = std::panic::AssertUnwindSafe(|| {
            db.edit::<Hash, ()>(b"k", |hash| {
                hash.insert(b"f", b"v");
                panic!("in the middle");
            })
        });
        assert!(std::panic::catch_unwind(change).is_err());
        assert!(!db.contains(b"k"));
        let last = db.journal.take().into_iter().flatten().last();
        assert!(matches!(last, Some(Effect::Drop { .. })), "{last:?}");
    }
}
