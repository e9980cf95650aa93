//! `parlor keys show`: prints the value of one key by its type, at most as many elements as requested.

use std::os::unix::ffi::OsStrExt;

use anyhow::bail;
use parlor_chat::keys::Keyspace;
use redis::Cmd;
use serde_json::{Map, Value, json};

use super::super::escape::{escape_control_chars, escaped, to_json_text, unescape};
use super::super::store_reader::Reader;
use super::super::{CommandStatus, Output};
use super::ShowArgs;
use super::key_info::{self, KeyInfo};

/// Value of a key.
enum KeyContent {
    Text(Vec<u8>),
    Items(Vec<Vec<u8>>),
    Pairs(Vec<(Vec<u8>, Vec<u8>)>),
    Scored(Vec<(Vec<u8>, f64)>),
}

/// Prints the key.
pub async fn run(
    reader: &Reader,
    keyspace: &Keyspace,
    one: &ShowArgs,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    let Some(facts) = find(reader, keyspace, one).await? else {
        bail!(
            "there is no key {}; list the keys with `parlor keys list`",
            escaped(one.key.as_bytes())
        );
    };
    let content = read(reader, &facts, one.limit).await?;
    if one.json {
        output.json(&as_json(&facts, &content))?;
        return Ok(CommandStatus::Succeeded);
    }
    let head = format!(
        "{}\n  type    {}\n  ttl     {}\n  length  {}\n  meaning {}\n",
        facts.name(),
        facts.redis_type,
        facts.ttl_text(),
        facts.length,
        facts.meaning()
    );
    output.line(&head)?;
    output.line("")?;
    match &content {
        KeyContent::Text(text) => output.line(&escape_control_chars(text))?,
        KeyContent::Items(items) => {
            let rows = items
                .iter()
                .enumerate()
                .map(|(index, item)| vec![index.to_string(), escaped(item)]);
            output.write_table(&["#", "VALUE"], rows.collect())?;
        }
        KeyContent::Pairs(pairs) => {
            let rows = pairs
                .iter()
                .map(|(field, value)| vec![escaped(field), escaped(value)]);
            output.write_table(&["FIELD", "VALUE"], rows.collect())?;
        }
        KeyContent::Scored(scored) => {
            let rows = scored
                .iter()
                .map(|(member, score)| vec![escaped(member), score.to_string()]);
            output.write_table(&["MEMBER", "SCORE"], rows.collect())?;
        }
    }
    let shown = content.len();
    if !matches!(content, KeyContent::Text(_)) && (shown as u64) < facts.length {
        eprintln!("{shown} of {} elements; --limit 0 shows all", facts.length);
    }
    Ok(CommandStatus::Succeeded)
}

/// Finds the key with this name, or else with the name that is escaped like this.
async fn find(
    reader: &Reader,
    keyspace: &Keyspace,
    one: &ShowArgs,
) -> anyhow::Result<Option<KeyInfo>> {
    let typed = one.key.as_bytes().to_vec();
    let mut names = vec![typed];
    names.extend(one.key.to_str().and_then(unescape));
    Ok(key_info::of(reader, keyspace, names)
        .await?
        .into_iter()
        .next())
}

impl KeyContent {
    fn len(&self) -> usize {
        match self {
            KeyContent::Text(_) => 1,
            KeyContent::Items(items) => items.len(),
            KeyContent::Pairs(pairs) => pairs.len(),
            KeyContent::Scored(scored) => scored.len(),
        }
    }
}

async fn read(reader: &Reader, facts: &KeyInfo, limit: usize) -> anyhow::Result<KeyContent> {
    let limit = if limit == 0 { usize::MAX } else { limit };
    let last = i64::try_from(limit).map_or(-1, |limit| limit - 1);
    let command = |name: &str| redis::cmd(name).arg(&facts.key).take();
    Ok(match facts.redis_type.as_str() {
        "string" => KeyContent::Text(reader.ask(&command("GET")).await?),
        "list" => KeyContent::Items(reader.ask(command("LRANGE").arg(0).arg(last)).await?),
        "set" => KeyContent::Items(scan_elements(reader, &command("SSCAN"), limit).await?),
        "hash" => KeyContent::Pairs(into_pairs(
            scan_elements(reader, &command("HSCAN"), limit.saturating_mul(2)).await?,
        )),
        "zset" => {
            let scored: Vec<(Vec<u8>, f64)> = reader
                .ask(command("ZRANGE").arg(0).arg(last).arg("WITHSCORES"))
                .await?;
            KeyContent::Scored(scored)
        }
        other => bail!(
            "{} has the type {other}, which cannot be shown",
            facts.name()
        ),
    })
}

/// Reads elements of a set or hash in bounded steps until there are enough. The order is arbitrary.
async fn scan_elements(
    reader: &Reader,
    start: &Cmd,
    enough: usize,
) -> anyhow::Result<Vec<Vec<u8>>> {
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

fn into_pairs(flat: Vec<Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut flat = flat.into_iter();
    let mut pairs = Vec::new();
    while let (Some(one), Some(two)) = (flat.next(), flat.next()) {
        pairs.push((one, two));
    }
    pairs
}

fn as_json(facts: &KeyInfo, content: &KeyContent) -> Value {
    let value = match content {
        KeyContent::Text(bytes) => to_json_text(bytes),
        KeyContent::Items(items) => items.iter().map(|item| to_json_text(item)).collect(),
        KeyContent::Pairs(pairs) => {
            let name = |field: &[u8]| {
                std::str::from_utf8(field).map_or_else(|_| escaped(field), str::to_owned)
            };
            let fields: Map<_, _> = pairs
                .iter()
                .map(|(field, value)| (name(field), to_json_text(value)))
                .collect();
            Value::Object(fields)
        }
        KeyContent::Scored(scored) => scored
            .iter()
            .map(|(member, score)| json!({ "member": to_json_text(member), "score": json_score(*score) }))
            .collect(),
    };
    let mut all = facts.json();
    all["value"] = value;
    all
}

/// A score as JSON. JSON has no infinity, so an infinite score becomes a string.
fn json_score(score: f64) -> Value {
    if score.is_finite() {
        json!(score)
    } else {
        json!(score.to_string())
    }
}
