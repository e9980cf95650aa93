//! `parlor keys show`: the value of one key, by its type, never more of it than asked for.

use std::os::unix::ffi::OsStrExt;

use anyhow::bail;
use parlor_chat::keys::Keyspace;
use redis::Cmd;
use serde_json::{Map, Value, json};

use super::super::reader::Reader;
use super::super::{Outcome, Output};
use super::One;
use super::facts::{self, Facts};
use super::text::{escaped, in_json, readable, unescaped};

/// A value, read.
enum Content {
    Text(Vec<u8>),
    Items(Vec<Vec<u8>>),
    Pairs(Vec<(Vec<u8>, Vec<u8>)>),
    Scored(Vec<(Vec<u8>, f64)>),
}

/// Shows the key.
pub async fn run(
    reader: &Reader,
    keyspace: &Keyspace,
    one: &One,
    output: &mut Output,
) -> anyhow::Result<Outcome> {
    let Some(facts) = find(reader, keyspace, one).await? else {
        bail!(
            "there is no key {}; `parlor keys list` shows those that exist",
            escaped(one.key.as_bytes())
        );
    };
    let content = read(reader, &facts, one.limit).await?;
    if one.json {
        output.json(&as_json(&facts, &content))?;
        return Ok(Outcome::Done);
    }
    let head = format!(
        "{}\n  type    {}\n  ttl     {}\n  length  {}\n  is      {}\n",
        facts.name(),
        facts.kind,
        facts.ttl_text(),
        facts.length,
        facts.meaning()
    );
    output.line(&head)?;
    output.line("")?;
    match &content {
        Content::Text(text) => output.line(&readable(text))?,
        Content::Items(items) => {
            let rows = items
                .iter()
                .enumerate()
                .map(|(index, item)| vec![index.to_string(), escaped(item)]);
            output.table(&["#", "VALUE"], rows.collect())?;
        }
        Content::Pairs(pairs) => {
            let rows = pairs
                .iter()
                .map(|(field, value)| vec![escaped(field), escaped(value)]);
            output.table(&["FIELD", "VALUE"], rows.collect())?;
        }
        Content::Scored(scored) => {
            let rows = scored
                .iter()
                .map(|(member, score)| vec![escaped(member), score.to_string()]);
            output.table(&["MEMBER", "SCORE"], rows.collect())?;
        }
    }
    let shown = content.len();
    if !matches!(content, Content::Text(_)) && (shown as u64) < facts.length {
        eprintln!("{shown} of {} elements; --limit 0 shows all", facts.length);
    }
    Ok(Outcome::Done)
}

/// The key as it was typed, or else as `keys list` shows it.
async fn find(reader: &Reader, keyspace: &Keyspace, one: &One) -> anyhow::Result<Option<Facts>> {
    let typed = one.key.as_bytes().to_vec();
    let mut names = vec![typed];
    names.extend(one.key.to_str().and_then(unescaped));
    Ok(facts::of(reader, keyspace, names).await?.into_iter().next())
}

impl Content {
    fn len(&self) -> usize {
        match self {
            Content::Text(_) => 1,
            Content::Items(items) => items.len(),
            Content::Pairs(pairs) => pairs.len(),
            Content::Scored(scored) => scored.len(),
        }
    }
}

async fn read(reader: &Reader, facts: &Facts, limit: usize) -> anyhow::Result<Content> {
    let limit = if limit == 0 { usize::MAX } else { limit };
    let last = i64::try_from(limit).map_or(-1, |limit| limit - 1);
    let command = |name: &str| redis::cmd(name).arg(&facts.key).take();
    Ok(match facts.kind.as_str() {
        "string" => Content::Text(reader.ask(&command("GET")).await?),
        "list" => Content::Items(reader.ask(command("LRANGE").arg(0).arg(last)).await?),
        "set" => Content::Items(walk(reader, &command("SSCAN"), limit).await?),
        "hash" => Content::Pairs(pairs(
            walk(reader, &command("HSCAN"), limit.saturating_mul(2)).await?,
        )),
        "zset" => {
            let scored: Vec<(Vec<u8>, f64)> = reader
                .ask(command("ZRANGE").arg(0).arg(last).arg("WITHSCORES"))
                .await?;
            Content::Scored(scored)
        }
        other => bail!(
            "{} is of the type {other}, which cannot be shown",
            facts.name()
        ),
    })
}

/// The elements of a set or hash in bounded steps, sorted by nothing, until there are enough.
async fn walk(reader: &Reader, start: &Cmd, enough: usize) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    let mut cursor = 0_u64;
    loop {
        let step = start.clone().arg(cursor).arg("COUNT").arg(500).take();
        let (next, elements): (u64, Vec<Vec<u8>>) = reader.ask(&step).await?;
        all.extend(elements);
        cursor = next;
        if cursor == 0 || all.len() >= enough {
            all.truncate(enough);
            return Ok(all);
        }
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

fn as_json(facts: &Facts, content: &Content) -> Value {
    let value = match content {
        Content::Text(bytes) => in_json(bytes),
        Content::Items(items) => items.iter().map(|item| in_json(item)).collect(),
        Content::Pairs(pairs) => {
            let name = |field: &[u8]| {
                std::str::from_utf8(field).map_or_else(|_| escaped(field), str::to_owned)
            };
            let fields: Map<_, _> = pairs
                .iter()
                .map(|(field, value)| (name(field), in_json(value)))
                .collect();
            Value::Object(fields)
        }
        Content::Scored(scored) => scored
            .iter()
            .map(|(member, score)| json!({ "member": in_json(member), "score": number(*score) }))
            .collect(),
    };
    let mut all = facts.json();
    all["value"] = value;
    all
}

/// A score; JSON has no infinity, so that one is a text.
fn number(score: f64) -> Value {
    if score.is_finite() {
        json!(score)
    } else {
        json!(score.to_string())
    }
}
