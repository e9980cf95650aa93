//! The value of a key, read in bounded chunks by its type.

use parlor_store::Store;
use redis::RedisResult;

use super::store_reader::query;

/// Elements per chunk.
pub const CHUNK_ELEMENTS: usize = 500;
/// Bytes per chunk of a string.
pub const CHUNK_BYTES: usize = 1024 * 1024;

/// A value, or a chunk of it.
pub enum RedisValue {
    /// Bytes of a string.
    Text(Vec<u8>),
    /// Elements of a list.
    Items(Vec<Vec<u8>>),
    /// Members of a set.
    Members(Vec<Vec<u8>>),
    /// Fields of a hash with their values.
    Fields(Vec<(Vec<u8>, Vec<u8>)>),
    /// Members of a sorted set with their scores.
    Scored(Vec<(Vec<u8>, f64)>),
}

impl RedisValue {
    /// Number of elements, or of the bytes of a string.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Items(items) | Self::Members(items) => items.len(),
            Self::Fields(fields) => fields.len(),
            Self::Scored(scored) => scored.len(),
        }
    }

    /// Appends the next chunk of the same value.
    fn append(&mut self, next: Self) {
        match (self, next) {
            (Self::Text(text), Self::Text(next)) => text.extend(next),
            (Self::Items(all), Self::Items(next)) | (Self::Members(all), Self::Members(next)) => {
                all.extend(next);
            }
            (Self::Fields(all), Self::Fields(next)) => all.extend(next),
            (Self::Scored(all), Self::Scored(next)) => all.extend(next),
            _ => {}
        }
    }

    fn truncate(&mut self, max_elements: usize) {
        match self {
            Self::Text(_) => {}
            Self::Items(items) | Self::Members(items) => items.truncate(max_elements),
            Self::Fields(fields) => fields.truncate(max_elements),
            Self::Scored(scored) => scored.truncate(max_elements),
        }
    }
}

/// Reads a value chunk by chunk.
#[derive(Default)]
pub struct ValueCursor {
    /// Position of the next chunk: an index, or the cursor of a scan.
    pub next: u64,
    is_done: bool,
}

impl ValueCursor {
    /// Reads the next chunk of a key of this type; `None` at the end.
    pub async fn next_chunk(
        &mut self,
        store: &Store,
        key: &[u8],
        redis_type: &str,
    ) -> RedisResult<Option<RedisValue>> {
        if self.is_done {
            return Ok(None);
        }
        let (name, wanted) = match redis_type {
            "string" => ("GETRANGE", CHUNK_BYTES),
            "list" => ("LRANGE", CHUNK_ELEMENTS),
            "zset" => ("ZRANGE", CHUNK_ELEMENTS),
            "set" => ("SSCAN", CHUNK_ELEMENTS),
            _ => ("HSCAN", CHUNK_ELEMENTS),
        };
        let mut command = redis::cmd(name);
        command.arg(key).arg(self.next);
        if matches!(redis_type, "set" | "hash") {
            command.arg("COUNT").arg(wanted);
            let chunk;
            (self.next, chunk) = match redis_type {
                "set" => {
                    let (next, members) = query(store, &command).await?;
                    (next, RedisValue::Members(members))
                }
                _ => {
                    let (next, fields) = query(store, &command).await?;
                    (next, RedisValue::Fields(fields))
                }
            };
            self.is_done = self.next == 0;
            return Ok(Some(chunk));
        }
        let is_first = self.next == 0;
        command.arg(self.next + wanted as u64 - 1);
        self.next += wanted as u64;
        let chunk = match redis_type {
            "string" => RedisValue::Text(query(store, &command).await?),
            "list" => RedisValue::Items(query(store, &command).await?),
            _ => RedisValue::Scored(query(store, command.arg("WITHSCORES")).await?),
        };
        self.is_done = chunk.len() < wanted;
        Ok((is_first || chunk.len() > 0).then_some(chunk))
    }
}

/// Reads a value of this type, with at most `max_elements` elements. The order of sets and hashes is arbitrary.
pub async fn read_value(
    store: &Store,
    key: &[u8],
    redis_type: &str,
    max_elements: usize,
) -> RedisResult<RedisValue> {
    let mut cursor = ValueCursor::default();
    let mut value = RedisValue::Text(Vec::new());
    let mut is_first = true;
    while let Some(chunk) = cursor.next_chunk(store, key, redis_type).await? {
        if std::mem::take(&mut is_first) {
            value = chunk;
        } else {
            value.append(chunk);
        }
        if value.len() >= max_elements && redis_type != "string" {
            break;
        }
    }
    value.truncate(max_elements);
    Ok(value)
}

/// True if values of this type can be read.
pub fn is_readable(redis_type: &str) -> bool {
    matches!(redis_type, "string" | "list" | "set" | "hash" | "zset")
}

/// The command that returns the length of a value of this type.
pub fn length_command(redis_type: &str) -> &'static str {
    match redis_type {
        "string" => "STRLEN",
        "hash" => "HLEN",
        "list" => "LLEN",
        "set" => "SCARD",
        "zset" => "ZCARD",
        // A stream, a type of a module or a deleted key has no common length command. EXISTS works for all of them.
        _ => "EXISTS",
    }
}
