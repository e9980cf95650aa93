//! What is known of a key without reading its value.

use std::time::Duration;

use parlor_chat::keys::{KeySpec, Keyspace};
use redis::Cmd;
use serde_json::json;

use super::super::reader::Reader;
use super::{short, text};

/// Keys whose facts are asked for at a time.
const BATCH: usize = 256;

/// A key's type, TTL, length and declaration.
pub struct Facts {
    /// The key.
    pub key: Vec<u8>,
    /// What `TYPE` says; `none` if it went away meanwhile.
    pub kind: String,
    /// How long it still lives; none means for ever.
    pub ttl: Option<Duration>,
    /// Bytes of a string, elements of everything else.
    pub length: u64,
    /// Its declaration, if it is one of ours.
    pub spec: Option<&'static KeySpec>,
}

impl Facts {
    /// The key in one line.
    pub fn name(&self) -> String {
        text::escaped(&self.key)
    }

    /// What the key is for.
    pub fn meaning(&self) -> &'static str {
        self.spec.map_or("not declared", |spec| spec.meaning)
    }

    /// The TTL for people.
    pub fn ttl_text(&self) -> String {
        self.ttl.map_or_else(|| "none".into(), short)
    }

    /// The TTL for programs.
    pub fn ttl_ms(&self) -> Option<u64> {
        self.ttl
            .map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
    }

    /// Everything for programs.
    pub fn json(&self) -> serde_json::Value {
        json!({
            "key": text::in_json(&self.key),
            "type": self.kind,
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
) -> anyhow::Result<Vec<Facts>> {
    let mut all = Vec::with_capacity(keys.len());
    for batch in keys.chunks(BATCH) {
        let each = |name: &str| {
            batch
                .iter()
                .map(|key| redis::cmd(name).arg(key).take())
                .collect::<Vec<Cmd>>()
        };
        let kinds: Vec<String> = reader.ask_each(each("TYPE")).await?;
        let ttls: Vec<i64> = reader.ask_each(each("PTTL")).await?;
        let lengths = batch
            .iter()
            .zip(&kinds)
            .map(|(key, kind)| redis::cmd(length_command(kind)).arg(key).take());
        let lengths: Vec<u64> = reader.ask_each(lengths.collect()).await?;
        for (((key, kind), ttl), length) in batch.iter().zip(kinds).zip(ttls).zip(lengths) {
            if kind != "none" && ttl != -2 {
                let spec = keyspace.match_key(key).map(|found| found.spec);
                let ttl = u64::try_from(ttl).ok().map(Duration::from_millis);
                all.push(Facts {
                    key: key.clone(),
                    kind,
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
