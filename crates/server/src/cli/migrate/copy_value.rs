//! Reads, compares and writes the value of one key in bounded chunks.
//!
//! Invariant: the first chunk is written together with the expiry time, and a key counts as copied only if its whole
//! value is equal to the source, so an interrupted copy of a value is never taken for a complete one.

use std::time::Duration;

use parlor_store::Store;
use redis::{Cmd, FromRedisValue, RedisResult};

/// Elements per chunk.
const CHUNK_ELEMENTS: usize = 500;
/// Bytes per chunk of a string.
const CHUNK_BYTES: usize = 1024 * 1024;
/// Tolerance of expiry times if a server reports only the remaining time.
const DEADLINE_TOLERANCE: Duration = Duration::from_secs(2);

/// A store of a migration.
#[derive(Clone)]
pub struct MigrationStore {
    /// The store.
    pub store: Store,
    /// True if the store knows PEXPIRETIME (Redis 7), which reports expiry times in milliseconds.
    has_exact_deadlines: bool,
}

/// Type and expiry time of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyHeader {
    /// Reply of `TYPE`.
    pub kind: String,
    /// Expiry time in milliseconds since 1970; `None` if the key does not expire.
    pub deadline: Option<u64>,
}

/// A chunk of a value.
enum ValueChunk {
    Text(Vec<u8>),
    Items(Vec<Vec<u8>>),
    Members(Vec<Vec<u8>>),
    Fields(Vec<(Vec<u8>, Vec<u8>)>),
    Scored(Vec<(Vec<u8>, f64)>),
}

/// Cursor over the chunks of a value.
struct ValueCursor {
    next: u64,
    done: bool,
}

impl MigrationStore {
    /// Checks whether the store knows PEXPIRETIME.
    pub async fn new(store: Store) -> RedisResult<Self> {
        let asked = redis::cmd("PEXPIRETIME").arg("parlor:epoch").take();
        let told: RedisResult<i64> = asked.query_async(&mut store.clone()).await;
        let exact = match told {
            Ok(_) => true,
            Err(error) => {
                let unknown = error
                    .detail()
                    .is_some_and(|it| it.contains("unknown command"));
                unknown.then_some(false).ok_or(error)?
            }
        };
        Ok(Self {
            store,
            has_exact_deadlines: exact,
        })
    }

    /// Runs a command.
    pub async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        command.query_async(&mut self.store.clone()).await
    }

    /// Type and expiry time of a key; `None` if it does not exist.
    pub async fn entry(&self, key: &[u8]) -> RedisResult<Option<KeyHeader>> {
        let kind: String = self.ask(redis::cmd("TYPE").arg(key)).await?;
        let deadline = match self.has_exact_deadlines {
            true => self.ask::<i64>(redis::cmd("PEXPIRETIME").arg(key)).await?,
            false => match self.ask::<i64>(redis::cmd("PTTL").arg(key)).await? {
                left if left < 0 => left,
                left => left.saturating_add_unsigned(self.store.clock().now_ms()),
            },
        };
        Ok((kind != "none" && deadline != -2).then(|| KeyHeader {
            kind,
            deadline: u64::try_from(deadline).ok(),
        }))
    }

    /// Reads the next chunk of a value.
    async fn next_chunk(
        &self,
        key: &[u8],
        kind: &str,
        walk: &mut ValueCursor,
    ) -> RedisResult<Option<ValueChunk>> {
        if walk.done {
            return Ok(None);
        }
        let (size, wanted) = match kind {
            "string" => ("GETRANGE", CHUNK_BYTES),
            "list" => ("LRANGE", CHUNK_ELEMENTS),
            "zset" => ("ZRANGE", CHUNK_ELEMENTS),
            "set" => ("SSCAN", CHUNK_ELEMENTS),
            _ => ("HSCAN", CHUNK_ELEMENTS),
        };
        let mut command = redis::cmd(size);
        command.arg(key);
        if matches!(kind, "set" | "hash") {
            command.arg(walk.next).arg("COUNT").arg(wanted);
            let (next, elements): (u64, Vec<Vec<u8>>) = self.ask(&command).await?;
            walk.next = next;
            walk.done = next == 0;
            return Ok(Some(match kind {
                "set" => ValueChunk::Members(elements),
                _ => ValueChunk::Fields(pairs(elements)),
            }));
        }
        let first = walk.next == 0;
        command.arg(walk.next).arg(walk.next + wanted as u64 - 1);
        walk.next += wanted as u64;
        let piece = match kind {
            "string" => ValueChunk::Text(self.ask(&command).await?),
            "list" => ValueChunk::Items(self.ask(&command).await?),
            _ => ValueChunk::Scored(self.ask(command.arg("WITHSCORES")).await?),
        };
        walk.done = piece.len() < wanted;
        Ok((first || piece.len() > 0).then_some(piece))
    }

    /// True if this store has the same chunk at this position of the key.
    async fn contains_chunk(&self, key: &[u8], from: u64, piece: &ValueChunk) -> RedisResult<bool> {
        let range = |name: &str, most: usize| {
            let mut command = redis::cmd(name);
            command
                .arg(key)
                .arg(from)
                .arg(from + most as u64 - 1)
                .take()
        };
        Ok(match piece {
            ValueChunk::Text(text) => {
                self.ask::<Vec<u8>>(&range("GETRANGE", CHUNK_BYTES)).await? == *text
            }
            ValueChunk::Items(items) => {
                self.ask::<Vec<Vec<u8>>>(&range("LRANGE", CHUNK_ELEMENTS))
                    .await?
                    == *items
            }
            ValueChunk::Scored(scored) => {
                let mut range = range("ZRANGE", CHUNK_ELEMENTS);
                self.ask::<Vec<(Vec<u8>, f64)>>(range.arg("WITHSCORES"))
                    .await?
                    == *scored
            }
            ValueChunk::Members(members) if members.is_empty() => true,
            ValueChunk::Members(members) => {
                let asked = redis::cmd("SMISMEMBER").arg(key).arg(members).take();
                let held: Vec<bool> = self.ask(&asked).await?;
                held.into_iter().all(|held| held)
            }
            ValueChunk::Fields(fields) if fields.is_empty() => true,
            ValueChunk::Fields(fields) => {
                let mut asked = redis::cmd("HMGET");
                asked.arg(key);
                for (field, _) in fields {
                    asked.arg(field);
                }
                let held: Vec<Option<Vec<u8>>> = self.ask(&asked).await?;
                let mut both = held.iter().zip(fields);
                both.all(|(held, (_, value))| held.as_ref() == Some(value))
            }
        })
    }

    async fn length(&self, key: &[u8], kind: &str) -> RedisResult<u64> {
        let name = match kind {
            "string" => "STRLEN",
            "list" => "LLEN",
            "set" => "SCARD",
            "zset" => "ZCARD",
            _ => "HLEN",
        };
        self.ask(redis::cmd(name).arg(key)).await
    }
}

impl ValueChunk {
    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Items(items) | Self::Members(items) => items.len(),
            Self::Fields(fields) => fields.len(),
            Self::Scored(scored) => scored.len(),
        }
    }

    /// The command that adds the chunk to a key; the first chunk of a string creates the key.
    fn write_command(&self, key: &[u8], first: bool) -> Cmd {
        let mut command = redis::cmd(match self {
            Self::Text(_) if first => "SET",
            Self::Text(_) => "APPEND",
            Self::Items(_) => "RPUSH",
            Self::Members(_) => "SADD",
            Self::Fields(_) => "HSET",
            Self::Scored(_) => "ZADD",
        });
        command.arg(key);
        match self {
            Self::Text(text) => {
                command.arg(text);
            }
            Self::Items(items) | Self::Members(items) => {
                command.arg(items);
            }
            Self::Fields(fields) => {
                for (field, value) in fields {
                    command.arg(field).arg(value);
                }
            }
            Self::Scored(scored) => {
                for (member, score) in scored {
                    command.arg(*score).arg(member);
                }
            }
        }
        command
    }
}

/// True if values of this type can be copied.
pub fn is_copyable(kind: &str) -> bool {
    matches!(kind, "string" | "list" | "set" | "hash" | "zset")
}

/// True if two keys of the same type have equal values.
pub async fn same_value(
    (source, key): (&MigrationStore, &[u8]),
    (target, name): (&MigrationStore, &[u8]),
    kind: &str,
) -> RedisResult<bool> {
    if source.length(key, kind).await? != target.length(name, kind).await? {
        return Ok(false);
    }
    let mut walk = ValueCursor {
        next: 0,
        done: false,
    };
    loop {
        let from = walk.next;
        match source.next_chunk(key, kind, &mut walk).await? {
            None => return Ok(true),
            Some(piece) if target.contains_chunk(name, from, &piece).await? => {}
            Some(_) => return Ok(false),
        }
    }
}

/// True if two keys expire at the same time.
pub fn same_deadline(
    source: (&MigrationStore, &KeyHeader),
    target: (&MigrationStore, &KeyHeader),
) -> bool {
    let blur = match source.0.has_exact_deadlines && target.0.has_exact_deadlines {
        true => 0,
        false => DEADLINE_TOLERANCE.as_millis() as u64,
    };
    match (source.1.deadline, target.1.deadline) {
        (Some(one), Some(other)) => one.abs_diff(other) <= blur,
        (one, other) => one == other,
    }
}

/// Replaces a key in the target.
pub async fn write(
    (source, key): (&MigrationStore, &[u8]),
    (target, name): (&MigrationStore, &[u8]),
    entry: &KeyHeader,
) -> RedisResult<()> {
    let expire = |at: u64| redis::cmd("PEXPIREAT").arg(name).arg(at).take();
    let mut walk = ValueCursor {
        next: 0,
        done: false,
    };
    let mut first = true;
    while let Some(piece) = source.next_chunk(key, &entry.kind, &mut walk).await? {
        let adding = piece.write_command(name, first);
        let empty = piece.len() == 0 && !matches!(piece, ValueChunk::Text(_));
        if first && !empty {
            let mut pipe = redis::pipe();
            pipe.atomic()
                .del(name)
                .ignore()
                .add_command(adding)
                .ignore();
            if let Some(at) = entry.deadline {
                pipe.add_command(expire(at)).ignore();
            }
            pipe.exec_async(&mut target.store.idempotent()).await?;
            first = false;
        } else if !empty {
            target.ask::<redis::Value>(&adding).await?;
        }
    }
    // If the key expired during the copy, the last chunk has created it again without an expiry time.
    match entry.deadline {
        Some(at) if !first => target.ask(&expire(at)).await,
        _ => Ok(()),
    }
}

/// Sets the expiry time of a key in the target.
pub async fn set_deadline(
    target: &MigrationStore,
    name: &[u8],
    entry: &KeyHeader,
) -> RedisResult<()> {
    match entry.deadline {
        Some(at) => target.ask(redis::cmd("PEXPIREAT").arg(name).arg(at)).await,
        None => target.ask(redis::cmd("PERSIST").arg(name)).await,
    }
}

fn pairs(flat: Vec<Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut flat = flat.into_iter();
    let mut pairs = Vec::new();
    while let (Some(one), Some(two)) = (flat.next(), flat.next()) {
        pairs.push((one, two));
    }
    pairs
}
