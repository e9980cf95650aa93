//! Type, TTL, length and declaration of keys, without their values.

use std::time::Duration;

use parlor_chat::keys::{KeySpec, Keyspace};
use parlor_store::Store;
use serde_json::json;

use super::super::escape::{escape, to_json_text};
use super::super::redis_value::length_command;
use super::super::store_reader::{query_each_key, query_keys};
use super::rounded_ttl;

/// Keys per round trip.
const KEYS_PER_QUERY: usize = 256;

/// Type, TTL, length and declaration of a key.
pub struct KeyInfo {
    pub key: Vec<u8>,
    /// Reply of `TYPE`.
    pub redis_type: String,
    /// Remaining time to live; `None` if the key does not expire.
    pub ttl: Option<Duration>,
    /// Bytes of a string, otherwise number of elements.
    pub length: u64,
    /// Declaration of the key; `None` if Parlor does not declare it.
    pub spec: Option<&'static KeySpec>,
}

impl KeyInfo {
    /// Name of the key in one line.
    pub fn display_name(&self) -> String {
        escape(&self.key)
    }

    /// Meaning of the key.
    pub fn meaning(&self) -> &'static str {
        self.spec.map_or("unknown key", |spec| spec.meaning)
    }

    /// The TTL for people.
    pub fn ttl_text(&self) -> String {
        self.ttl.map_or_else(|| "none".into(), rounded_ttl)
    }

    /// The TTL in milliseconds, for programs.
    pub fn ttl_ms(&self) -> Option<u64> {
        self.ttl
            .map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
    }

    /// All details, for programs.
    pub fn json(&self) -> serde_json::Value {
        json!({
            "key": to_json_text(&self.key),
            "type": self.redis_type,
            "ttlMs": self.ttl_ms(),
            "length": self.length,
            "pattern": self.spec.map(|spec| spec.pattern.text()),
            "meaning": self.spec.map(|spec| spec.meaning),
        })
    }
}

/// Loads the details of these keys. Keys that do not exist are left out.
pub async fn load_key_infos(
    store: &Store,
    keyspace: &Keyspace,
    keys: Vec<Vec<u8>>,
) -> anyhow::Result<Vec<KeyInfo>> {
    let mut all = Vec::with_capacity(keys.len());
    for batch in keys.chunks(KEYS_PER_QUERY) {
        let kinds: Vec<String> = query_each_key(store, "TYPE", batch).await?;
        let ttls: Vec<i64> = query_each_key(store, "PTTL", batch).await?;
        let lengths = batch
            .iter()
            .zip(&kinds)
            .map(|(key, kind)| redis::cmd(length_command(kind)).arg(key).take());
        let lengths: Vec<u64> = query_keys(store, lengths.collect()).await?;
        for (((key, kind), ttl), length) in batch.iter().zip(kinds).zip(ttls).zip(lengths) {
            if kind != "none" && ttl != -2 {
                let spec = keyspace.match_key(key).map(|found| found.spec);
                let ttl = u64::try_from(ttl).ok().map(Duration::from_millis);
                all.push(KeyInfo {
                    key: key.clone(),
                    redis_type: kind,
                    ttl,
                    length,
                    spec,
                });
            }
        }
    }
    Ok(all)
}
