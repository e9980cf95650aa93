//! What is known of a key without reading its value.

use std::time::Duration;

use parlor_chat::keys::{KeySpec, Keyspace};
use redis::Cmd;
use serde_json::json;

use super::super::reader::Reader;
use super::{rounded_ttl, text};

/// Keys whose facts are asked for at a time.
const KEYS_PER_QUERY: usize = 256;

/// A key's type, TTL, length and declaration.
pub struct KeyInfo {
    /// The key.
    pub key: Vec<u8>,
    /// What `TYPE` says; `none` if it went away meanwhile.
    pub redis_type: String,
    /// How long it still lives; none means for ever.
    pub ttl: Option<Duration>,
    /// Bytes of a string, elements of everything else.
    pub length: u64,
    /// Its declaration, if it is one of ours.
    pub spec: Option<&'static KeySpec>,
}

impl KeyInfo {
    /// The key in one line.
    pub fn name(&self) -> String {
        text::escaped(&self.key)
    }

    /// What the key is for.
    pub fn meaning(&self) -> &'static str {
        self.spec.map_or("unknown key", |spec| spec.meaning)
    }

    /// The TTL for people.
    pub fn ttl_text(&self) -> String {
        self.ttl.map_or_else(|| "none".into(), rounded_ttl)
    }

    /// The TTL for programs.
    pub fn ttl_ms(&self) -> Option<u64> {
        self.ttl
            .map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
    }

    /// Everything for programs.
    pub fn json(&self) -> serde_json::Value {
        json!({
            "key": text::to_json_text(&self.key),
            "type": self.redis_type,
            "ttlMs": self.ttl_ms(),
            "length": self.length,
            "pattern": self.spec.map(|spec| spec.pattern.text()),
            "meaning": self.spec.map(|spec| spec.meaning),
        })
    }
}

/// The facts of these keys; those that went away meanwhile are left out.
pub async fn of(
    reader: &Reader,
    keyspace: &Keyspace,
    keys: Vec<Vec<u8>>,
) -> anyhow::Result<Vec<KeyInfo>> {
    let mut all = Vec::with_capacity(keys.len());
    for batch in keys.chunks(KEYS_PER_QUERY) {
        let each = |name: &str| {
            batch
                .iter()
                .map(|key| redis::cmd(name).arg(key).take())
                .collect::<Vec<Cmd>>()
        };
        let kinds: Vec<String> = reader.query_keys(each("TYPE")).await?;
        let ttls: Vec<i64> = reader.query_keys(each("PTTL")).await?;
        let lengths = batch
            .iter()
            .zip(&kinds)
            .map(|(key, kind)| redis::cmd(length_command(kind)).arg(key).take());
        let lengths: Vec<u64> = reader.query_keys(lengths.collect()).await?;
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

fn length_command(kind: &str) -> &'static str {
    match kind {
        "string" => "STRLEN",
        "hash" => "HLEN",
        "list" => "LLEN",
        "set" => "SCARD",
        "zset" => "ZCARD",
        // A stream, a module's type or a key that has gone: there is no length to ask for, and EXISTS always answers.
        _ => "EXISTS",
    }
}
