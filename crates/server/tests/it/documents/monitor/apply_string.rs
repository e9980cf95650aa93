//! Applies commands on strings and TTLs to the model of the keyspace.

use super::apply::CommandRun;
use super::keyspace::{ChangeKind, ContentType, KeyEntry, KeyWriter, StoredKey};

/// Two TTLs that differ by less than this many seconds are the same.
const TTL_TOLERANCE: f64 = 0.05;

impl CommandRun<'_> {
    pub(super) fn set(&mut self, key: &str, value: &str, options: &[&str]) -> Option<()> {
        let mut end = None;
        let mut options = options.iter().map(|option| option.to_uppercase());
        while let Some(option) = options.next() {
            let exists = self.keyspace.keys.contains_key(key);
            let mut number = || options.next()?.parse::<f64>().ok();
            match option.as_str() {
                "NX" if exists => return Some(()),
                "XX" if !exists => return Some(()),
                "EX" => end = Some(self.at + number()?),
                "PX" => end = Some(self.at + number()? / 1_000.0),
                "EXAT" => end = Some(number()?),
                "PXAT" => end = Some(number()? / 1_000.0),
                "KEEPTTL" => {
                    end = self.keyspace.keys.get(key).and_then(|it| it.expires_at);
                }
                "NX" | "XX" | "GET" => {}
                _ => return None,
            }
        }
        if let Some(old) = self.keyspace.keys.get(key) {
            if old.content_type != ContentType::Text {
                self.delete(key);
            } else if old.has_foreign_part() {
                let old_value = old.entries[""].value.clone();
                if old_value == value {
                    // The value stays, so only its lifetime counts.
                    self.compare_end(key, end);
                } else {
                    self.report(ChangeKind::Overwrite, key, "", &old_value, value);
                }
            }
        }
        let mut stored = StoredKey::new(ContentType::Text);
        stored.entries.insert(String::new(), self.entry(value));
        stored.expires_at = end;
        self.keyspace.keys.insert(key.to_owned(), stored);
        Some(())
    }

    pub(super) fn add(&mut self, key: &str, by: i64) {
        let writer = self.writer;
        let Some(stored) = self.open(key, ContentType::Text) else {
            return;
        };
        let zero = KeyEntry {
            writer,
            value: "0".into(),
        };
        let entry = stored.entries.entry(String::new()).or_insert(zero);
        let Ok(number) = entry.value.parse::<i64>() else {
            return;
        };
        entry.value = (number + by).to_string();
        if writer == KeyWriter::Other {
            entry.writer = writer;
        }
    }

    pub(super) fn expire(&mut self, key: &str, end: f64, options: &[&str]) {
        let Some(stored) = self.keyspace.keys.get(key) else {
            return;
        };
        let old = stored.expires_at;
        let applies = options
            .iter()
            .all(|option| match option.to_uppercase().as_str() {
                "NX" => old.is_none(),
                "XX" => old.is_some(),
                "GT" => old.is_some_and(|old| end > old),
                _ => old.is_none_or(|old| end < old),
            });
        if applies && end <= self.at {
            self.delete(key);
        } else if applies {
            self.compare_end(key, Some(end));
            self.set_end(key, Some(end));
        }
    }

    /// Reports a foreign key that is about to live shorter.
    fn compare_end(&mut self, key: &str, new: Option<f64>) {
        let old = &self.keyspace.keys[key];
        let (is_foreign, old) = (old.has_foreign_part(), old.expires_at);
        let is_shorter = new.is_some_and(|new| old.is_none_or(|old| new < old - TTL_TOLERANCE));
        if is_foreign && is_shorter {
            let at = self.at;
            let text = |end: Option<f64>| format!("TTL {:?}", end.map(|end| end - at));
            self.report(ChangeKind::Expire, key, "", &text(old), &text(new));
        }
    }

    pub(super) fn set_end(&mut self, key: &str, end: Option<f64>) {
        if let Some(stored) = self.keyspace.keys.get_mut(key) {
            stored.expires_at = end;
        }
    }
}
