//! Compares and copies the value of one key in bounded chunks.
//!
//! Invariant: the first chunk is written together with the expiry time, and a key counts as copied only if its whole
//! value is equal to the source, so an interrupted copy of a value is never taken for a complete one.

use std::time::Duration;

use parlor_store::Store;
use redis::{Cmd, FromRedisValue, RedisResult};

use super::super::redis_value::{
    CHUNK_BYTES, CHUNK_ELEMENTS, RedisValue, ValueCursor, length_command,
};
use super::super::store_reader::query;

/// Tolerance of expiry times if a server reports only the remaining time.
const DEADLINE_TOLERANCE: Duration = Duration::from_secs(2);

/// A store of a migration.
#[derive(Clone)]
pub struct MigrationStore {
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

impl MigrationStore {
    /// Checks whether the store knows PEXPIRETIME.
    pub async fn new(store: Store) -> RedisResult<Self> {
        let command = redis::cmd("PEXPIRETIME").arg("parlor:epoch").take();
        let reply: RedisResult<i64> = command.query_async(&mut store.clone()).await;
        let exact = match reply {
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

    pub async fn query<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        query(&self.store, command).await
    }

    /// Type and expiry time of a key; `None` if it does not exist.
    pub async fn key_header(&self, key: &[u8]) -> RedisResult<Option<KeyHeader>> {
        let kind: String = self.query(redis::cmd("TYPE").arg(key)).await?;
        let deadline = match self.has_exact_deadlines {
            true => {
                self.query::<i64>(redis::cmd("PEXPIRETIME").arg(key))
                    .await?
            }
            false => match self.query::<i64>(redis::cmd("PTTL").arg(key)).await? {
                left if left < 0 => left,
                left => left.saturating_add_unsigned(self.store.clock().now_ms()),
            },
        };
        Ok((kind != "none" && deadline != -2).then(|| KeyHeader {
            kind,
            deadline: u64::try_from(deadline).ok(),
        }))
    }

    /// True if this store has the same chunk at this position of the key.
    async fn contains_chunk(&self, key: &[u8], from: u64, chunk: &RedisValue) -> RedisResult<bool> {
        let range = |name: &str, length: usize| {
            let mut command = redis::cmd(name);
            command
                .arg(key)
                .arg(from)
                .arg(from + length as u64 - 1)
                .take()
        };
        Ok(match chunk {
            RedisValue::Text(text) => {
                self.query::<Vec<u8>>(&range("GETRANGE", CHUNK_BYTES))
                    .await?
                    == *text
            }
            RedisValue::Items(items) => {
                self.query::<Vec<Vec<u8>>>(&range("LRANGE", CHUNK_ELEMENTS))
                    .await?
                    == *items
            }
            RedisValue::Scored(scored) => {
                let mut range = range("ZRANGE", CHUNK_ELEMENTS);
                self.query::<Vec<(Vec<u8>, f64)>>(range.arg("WITHSCORES"))
                    .await?
                    == *scored
            }
            RedisValue::Members(members) if members.is_empty() => true,
            RedisValue::Members(members) => {
                let command = redis::cmd("SMISMEMBER").arg(key).arg(members).take();
                let held: Vec<bool> = self.query(&command).await?;
                held.into_iter().all(|held| held)
            }
            RedisValue::Fields(fields) if fields.is_empty() => true,
            RedisValue::Fields(fields) => {
                let mut command = redis::cmd("HMGET");
                command.arg(key);
                for (field, _) in fields {
                    command.arg(field);
                }
                let held: Vec<Option<Vec<u8>>> = self.query(&command).await?;
                let mut both = held.iter().zip(fields);
                both.all(|(held, (_, value))| held.as_ref() == Some(value))
            }
        })
    }

    async fn length(&self, key: &[u8], redis_type: &str) -> RedisResult<u64> {
        self.query(redis::cmd(length_command(redis_type)).arg(key))
            .await
    }
}

/// The command that adds the chunk to a key; the first chunk of a string creates the key.
fn write_command(chunk: &RedisValue, key: &[u8], first: bool) -> Cmd {
    let mut command = redis::cmd(match chunk {
        RedisValue::Text(_) if first => "SET",
        RedisValue::Text(_) => "APPEND",
        RedisValue::Items(_) => "RPUSH",
        RedisValue::Members(_) => "SADD",
        RedisValue::Fields(_) => "HSET",
        RedisValue::Scored(_) => "ZADD",
    });
    command.arg(key);
    match chunk {
        RedisValue::Text(text) => {
            command.arg(text);
        }
        RedisValue::Items(items) | RedisValue::Members(items) => {
            command.arg(items);
        }
        RedisValue::Fields(fields) => {
            for (field, value) in fields {
                command.arg(field).arg(value);
            }
        }
        RedisValue::Scored(scored) => {
            for (member, score) in scored {
                command.arg(*score).arg(member);
            }
        }
    }
    command
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
    let mut cursor = ValueCursor::default();
    loop {
        let from = cursor.next;
        match cursor.next_chunk(&source.store, key, kind).await? {
            None => return Ok(true),
            Some(chunk) if target.contains_chunk(name, from, &chunk).await? => {}
            Some(_) => return Ok(false),
        }
    }
}

/// True if two keys expire at the same time.
pub fn same_deadline(
    source: (&MigrationStore, &KeyHeader),
    target: (&MigrationStore, &KeyHeader),
) -> bool {
    let tolerance = match source.0.has_exact_deadlines && target.0.has_exact_deadlines {
        true => 0,
        false => DEADLINE_TOLERANCE.as_millis() as u64,
    };
    match (source.1.deadline, target.1.deadline) {
        (Some(one), Some(other)) => one.abs_diff(other) <= tolerance,
        (one, other) => one == other,
    }
}

/// Replaces a key in the target.
pub async fn copy_value(
    (source, key): (&MigrationStore, &[u8]),
    (target, name): (&MigrationStore, &[u8]),
    entry: &KeyHeader,
) -> RedisResult<()> {
    let expire = |at: u64| redis::cmd("PEXPIREAT").arg(name).arg(at).take();
    let mut cursor = ValueCursor::default();
    let mut first = true;
    while let Some(chunk) = cursor.next_chunk(&source.store, key, &entry.kind).await? {
        let command = write_command(&chunk, name, first);
        let empty = chunk.len() == 0 && !matches!(chunk, RedisValue::Text(_));
        if first && !empty {
            let mut pipe = redis::pipe();
            pipe.atomic()
                .del(name)
                .ignore()
                .add_command(command)
                .ignore();
            if let Some(at) = entry.deadline {
                pipe.add_command(expire(at)).ignore();
            }
            pipe.exec_async(&mut target.store.idempotent()).await?;
            first = false;
        } else if !empty {
            target.query::<redis::Value>(&command).await?;
        }
    }
    // If the key expired during the copy, the last chunk has created it again without an expiry time.
    match entry.deadline {
        Some(at) if !first => target.query(&expire(at)).await,
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
        Some(at) => {
            target
                .query(redis::cmd("PEXPIREAT").arg(name).arg(at))
                .await
        }
        None => target.query(redis::cmd("PERSIST").arg(name)).await,
    }
}
