//! Applies commands to the model of the keyspace, and reports what Parlor changes of others.

use super::keyspace::{
    ChangeKind, ContentType, ForeignChange, KeyEntry, KeyWriter, Keyspace, StoredKey,
};
use super::line::MonitoredCommand;

/// Commands that change no key.
const WITHOUT_EFFECT: &str = " ACL ASKING AUTH CLIENT CLUSTER COMMAND CONFIG DBSIZE DISCARD ECHO EVAL EVALSHA EXEC EXISTS GET \
    HEXISTS HELLO HGET HGETALL HKEYS HLEN HMGET HVALS INFO KEYS LINDEX LLEN LRANGE MEMORY MGET MONITOR MULTI OBJECT PING \
    PSUBSCRIBE PTTL PUBLISH PUBSUB QUIT ROLE SCAN SCARD SCRIPT SELECT SISMEMBER SMEMBERS SMISMEMBER SPUBLISH SSCAN \
    SSUBSCRIBE STRLEN SUBSCRIBE SUNSUBSCRIBE TIME TTL TYPE UNSUBSCRIBE UNWATCH WATCH ZCARD ZCOUNT ZRANGE ZRANGEBYSCORE \
    ZREVRANGE ZSCORE ";

/// One command while it is applied.
pub(super) struct CommandRun<'a> {
    pub keyspace: &'a mut Keyspace,
    pub writer: KeyWriter,
    pub at: f64,
    pub changes: Vec<ForeignChange>,
}

impl Keyspace {
    /// Applies a command. Returns what it changed of others, or an error if the command is unknown.
    pub(super) fn apply(
        &mut self,
        writer: KeyWriter,
        command: &MonitoredCommand,
    ) -> Result<Vec<ForeignChange>, String> {
        self.expire_due(command.at);
        let mut run = CommandRun {
            keyspace: self,
            writer,
            at: command.at,
            changes: Vec::new(),
        };
        let arguments: Vec<&str> = command.arguments.iter().map(String::as_str).collect();
        if run.run(&command.name, &arguments).is_none() {
            return Err(format!("the recorder does not know {command:?}"));
        }
        let mut changes = run.changes;
        changes.retain(|_| writer == KeyWriter::Parlor);
        self.keys.retain(|_, key| !key.is_empty());
        Ok(changes)
    }
}

impl CommandRun<'_> {
    /// `None` if the command or its form is unknown.
    fn run(&mut self, name: &str, arguments: &[&str]) -> Option<()> {
        match (name, arguments) {
            ("SET", [key, value, options @ ..]) => self.set(key, value, options)?,
            ("GETSET", [key, value]) => self.set(key, value, &[])?,
            ("SETEX", [key, seconds, value]) => self.set(key, value, &["EX", seconds])?,
            ("PSETEX", [key, ms, value]) => self.set(key, value, &["PX", ms])?,
            ("SETNX", [key, value]) => self.set(key, value, &["NX"])?,
            // An empty value changes nothing and creates no key.
            ("SETRANGE", [_, _, ""]) => {}
            ("INCR", [key]) => self.add(key, 1),
            ("DECR", [key]) => self.add(key, -1),
            ("INCRBY", [key, by]) => self.add(key, by.parse().ok()?),
            ("DECRBY", [key, by]) => self.add(key, -by.parse::<i64>().ok()?),
            ("DEL" | "UNLINK" | "GETDEL", keys) => keys.iter().for_each(|key| self.delete(key)),
            ("EXPIRE", [key, seconds, options @ ..]) => {
                self.expire(key, self.at + seconds.parse::<f64>().ok()?, options);
            }
            ("PEXPIRE", [key, ms, options @ ..]) => {
                self.expire(key, self.at + ms.parse::<f64>().ok()? / 1_000.0, options);
            }
            ("EXPIREAT", [key, at, options @ ..]) => self.expire(key, at.parse().ok()?, options),
            ("PERSIST", [key]) => self.set_end(key, None),
            ("HSET" | "HMSET", [key, pairs @ ..]) => {
                let pairs = pairs.chunks_exact(2).map(|pair| (pair[0], pair[1]));
                self.put(key, ContentType::Hash, pairs);
            }
            ("HSETNX", [key, field, value]) => {
                if self.keyspace.value(key, field).is_none() {
                    self.put(key, ContentType::Hash, [(*field, *value)].into_iter());
                }
            }
            ("SADD", [key, members @ ..]) => {
                let members = members.iter().map(|member| (*member, ""));
                self.put(key, ContentType::Set, members);
            }
            ("ZADD", [key, rest @ ..]) => self.add_scored(key, rest),
            ("HDEL", [key, entries @ ..]) => self.remove(key, ContentType::Hash, entries),
            ("SREM", [key, entries @ ..]) => self.remove(key, ContentType::Set, entries),
            ("ZREM", [key, entries @ ..]) => self.remove(key, ContentType::SortedSet, entries),
            ("ZREMRANGEBYSCORE", [key, low, high]) => self.remove_scores(key, low, high)?,
            _ if super::apply_list::is_list_command(name) => self.run_on_list(name, arguments)?,
            _ if WITHOUT_EFFECT.contains(&format!(" {name} ")) => {}
            _ => return None,
        }
        Some(())
    }

    pub(super) fn report(
        &mut self,
        kind: ChangeKind,
        key: &str,
        entry: &str,
        old: &str,
        new: &str,
    ) {
        let text = |text: &str| text.to_owned();
        self.changes.push(ForeignChange {
            at: self.at,
            kind,
            key: text(key),
            entry: text(entry),
            old: text(old),
            new: text(new),
        });
    }

    /// The key if it has this type, created if it is missing. A command on another type fails.
    pub(super) fn open(&mut self, key: &str, content_type: ContentType) -> Option<&mut StoredKey> {
        let new = || StoredKey::new(content_type);
        let found = self.keyspace.keys.entry(key.to_owned()).or_insert_with(new);
        (found.content_type == content_type).then_some(found)
    }

    pub(super) fn entry(&self, value: &str) -> KeyEntry {
        KeyEntry {
            writer: self.writer,
            value: value.to_owned(),
        }
    }

    pub(super) fn delete(&mut self, key: &str) {
        let Some(old) = self.keyspace.keys.remove(key) else {
            return;
        };
        if old.has_foreign_part() {
            let values: Vec<&str> = old.all_entries().map(|it| it.value.as_str()).collect();
            self.report(ChangeKind::Delete, key, "", &values.join(" "), "");
        }
    }

    fn put<'b>(
        &mut self,
        key: &str,
        content_type: ContentType,
        pairs: impl Iterator<Item = (&'b str, &'b str)>,
    ) {
        for (name, value) in pairs {
            let entry = self.entry(value);
            let Some(stored) = self.open(key, content_type) else {
                return;
            };
            let old = stored.entries.insert(name.to_owned(), entry);
            if let Some(old) = old
                && old.writer == KeyWriter::Other
                && old.value != value
            {
                self.report(ChangeKind::Overwrite, key, name, &old.value, value);
            }
        }
    }

    fn add_scored(&mut self, key: &str, mut rest: &[&str]) {
        let mut options = Vec::new();
        while let [first, tail @ ..] = rest
            && first.parse::<f64>().is_err()
        {
            options.push(first.to_uppercase());
            rest = tail;
        }
        let has = |option: &str| options.iter().any(|it| it == option);
        for pair in rest.chunks_exact(2) {
            let (score, member) = (pair[0], pair[1]);
            let number = |text: &str| text.parse::<f64>().unwrap_or(0.0);
            let old = self.keyspace.value(key, member).map(number);
            let keeps = match old {
                Some(old) => {
                    has("NX")
                        || (has("GT") && number(score) <= old)
                        || (has("LT") && number(score) >= old)
                }
                None => has("XX"),
            };
            if !keeps {
                self.put(key, ContentType::SortedSet, [(member, score)].into_iter());
            }
        }
    }

    fn remove(&mut self, key: &str, content_type: ContentType, names: &[&str]) {
        for name in names {
            let removed = self
                .open(key, content_type)
                .and_then(|it| it.entries.remove(*name));
            if let Some(old) = removed
                && old.writer == KeyWriter::Other
            {
                self.report(ChangeKind::Remove, key, name, &old.value, "");
            }
        }
    }

    fn remove_scores(&mut self, key: &str, low: &str, high: &str) -> Option<()> {
        let (low, high) = (score_bound(low)?, score_bound(high)?);
        let inside = |score: f64| {
            (score > low.0 || (score == low.0 && low.1))
                && (score < high.0 || (score == high.0 && high.1))
        };
        let stored = self.open(key, ContentType::SortedSet)?;
        let entries = stored.entries.iter();
        let found = entries.filter(|(_, entry)| entry.value.parse().is_ok_and(inside));
        let found: Vec<String> = found.map(|(name, _)| name.clone()).collect();
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        self.remove(key, ContentType::SortedSet, &found);
        Some(())
    }
}

/// Bound of a range of scores, and whether it belongs to the range.
fn score_bound(text: &str) -> Option<(f64, bool)> {
    match text.strip_prefix('(') {
        Some(exclusive) => Some((exclusive.parse().ok()?, false)),
        None => Some((text.parse().ok()?, true)),
    }
}
