//! `parlor keys show`: prints the value of one key by its type, at most as many elements as requested.

use std::os::unix::ffi::OsStrExt;

use anyhow::bail;
use parlor_chat::keys::Keyspace;
use parlor_store::Store;
use serde_json::{Map, Value, json};

use super::super::escape::{escape, escape_control_chars, to_json_text, unescape};
use super::super::redis_value::{RedisValue, is_readable, read_value};
use super::super::{CommandStatus, Output};
use super::ShowArgs;
use super::key_info::{KeyInfo, load_key_infos};

pub async fn run(
    store: &Store,
    keyspace: &Keyspace,
    args: &ShowArgs,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    let Some(info) = find(store, keyspace, args).await? else {
        bail!(
            "there is no key {}; list the keys with `parlor keys list`",
            escape(args.key.as_bytes())
        );
    };
    let redis_type = info.redis_type.as_str();
    if !is_readable(redis_type) {
        let name = info.display_name();
        bail!("{name} has the type {redis_type}, which cannot be shown");
    }
    let max_elements = if args.limit == 0 {
        usize::MAX
    } else {
        args.limit
    };
    let value = read_value(store, &info.key, redis_type, max_elements).await?;
    if args.json {
        output.write_json(&as_json(&info, &value))?;
        return Ok(CommandStatus::Succeeded);
    }
    let head = format!(
        "{}\n  type    {}\n  ttl     {}\n  length  {}\n  meaning {}\n",
        info.display_name(),
        info.redis_type,
        info.ttl_text(),
        info.length,
        info.meaning()
    );
    output.write_line(&head)?;
    output.write_line("")?;
    match &value {
        RedisValue::Text(text) => output.write_line(&escape_control_chars(text))?,
        RedisValue::Items(items) | RedisValue::Members(items) => {
            let rows = items
                .iter()
                .enumerate()
                .map(|(index, item)| vec![index.to_string(), escape(item)]);
            output.write_table(&["#", "VALUE"], rows.collect())?;
        }
        RedisValue::Fields(pairs) => {
            let rows = pairs
                .iter()
                .map(|(field, value)| vec![escape(field), escape(value)]);
            output.write_table(&["FIELD", "VALUE"], rows.collect())?;
        }
        RedisValue::Scored(scored) => {
            let rows = scored
                .iter()
                .map(|(member, score)| vec![escape(member), score.to_string()]);
            output.write_table(&["MEMBER", "SCORE"], rows.collect())?;
        }
    }
    let shown = value.len();
    if !matches!(value, RedisValue::Text(_)) && (shown as u64) < info.length {
        eprintln!("{shown} of {} elements; --limit 0 shows all", info.length);
    }
    Ok(CommandStatus::Succeeded)
}

/// Finds the key with this name, or else with the name that is escaped like this.
async fn find(
    store: &Store,
    keyspace: &Keyspace,
    args: &ShowArgs,
) -> anyhow::Result<Option<KeyInfo>> {
    let typed = args.key.as_bytes().to_vec();
    let mut names = vec![typed];
    names.extend(args.key.to_str().and_then(unescape));
    Ok(load_key_infos(store, keyspace, names)
        .await?
        .into_iter()
        .next())
}

fn as_json(info: &KeyInfo, value: &RedisValue) -> Value {
    let value = match value {
        RedisValue::Text(bytes) => to_json_text(bytes),
        RedisValue::Items(items) | RedisValue::Members(items) => items.iter().map(|item| to_json_text(item)).collect(),
        RedisValue::Fields(pairs) => {
            let name = |field: &[u8]| {
                std::str::from_utf8(field).map_or_else(|_| escape(field), str::to_owned)
            };
            let fields: Map<_, _> = pairs
                .iter()
                .map(|(field, value)| (name(field), to_json_text(value)))
                .collect();
            Value::Object(fields)
        }
        RedisValue::Scored(scored) => scored
            .iter()
            .map(|(member, score)| json!({ "member": to_json_text(member), "score": json_score(*score) }))
            .collect(),
    };
    let mut all = info.json();
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
