//! Content of a database, as a client sees it.

use std::collections::BTreeMap;

use redis::FromRedisValue;
use redis::aio::ConnectionLike;

/// Type, items and TTL of each key.
pub type Dump = BTreeMap<Vec<u8>, (String, Vec<Vec<u8>>, i64)>;

/// Reads all keys. Items that have no defined order are sorted.
pub async fn dump(connection: &mut impl ConnectionLike) -> Dump {
    let keys: Vec<Vec<u8>> = query(connection, &[b"KEYS", b"*"]).await;
    let mut dump = Dump::new();
    for key in keys {
        let value_type: String = query(connection, &[b"TYPE", &key]).await;
        let ttl = query(connection, &[b"PTTL", &key]).await;
        let read: &[&[u8]] = match &*value_type {
            "string" => &[b"MGET", &key],
            "hash" => &[b"HGETALL", &key],
            "set" => &[b"SMEMBERS", &key],
            "list" => &[b"LRANGE", &key, b"0", b"-1"],
            "zset" => &[b"ZRANGE", &key, b"0", b"-1", b"WITHSCORES"],
            other => panic!("a key of type {other}"),
        };
        let mut items: Vec<Vec<u8>> = query(connection, read).await;
        match &*value_type {
            "set" => items.sort(),
            "hash" => {
                let mut fields: Vec<_> = items.chunks(2).map(<[_]>::to_vec).collect();
                fields.sort();
                items = fields.concat();
            }
            _ => {}
        }
        dump.insert(key, (value_type, items, ttl));
    }
    dump
}

async fn query<T: FromRedisValue>(connection: &mut impl ConnectionLike, words: &[&[u8]]) -> T {
    let mut command = redis::Cmd::new();
    command.arg(words);
    command
        .query_async(connection)
        .await
        .expect("the dump of a database")
}
