//! `parlor keys`: lists, counts and shows the keys in the store, with SCAN in bounded steps.

mod key_info;
mod show;

use std::collections::BTreeMap;
use std::ffi::OsString;

use parlor_chat::keys::{KeyTtl, Keyspace, format_duration};
use parlor_store::Store;
use serde_json::json;

use super::escape::to_json_text;
use super::store_reader;
use super::{CommandStatus, Output};
use crate::config::LoadedConfig;
use key_info::{KeyInfo, load_key_infos};

#[derive(clap::Subcommand, Debug)]
#[command(after_help = "\
Patterns are Redis globs: * any characters, ? one character, [ab] one of these. The embedded store
is read as of its last flush. Control characters, backslashes and bytes that are not UTF-8 are
printed as \\n, \\t, \\\\, \\x1b; JSON output escapes only keys and values that are not UTF-8.

Examples:
  parlor keys list 'typing:*'
  parlor keys count
  parlor keys show presence:user:alice --json
  parlor keys ttl 'user:*'")]
pub enum KeysCommand {
    /// List keys with type, TTL, length and meaning
    List(ListArgs),
    /// Count keys by pattern
    Count(PatternArgs),
    /// Show the value of a key
    Show(ShowArgs),
    /// List keys by remaining TTL, with the declared TTL
    Ttl(ListArgs),
}

#[derive(clap::Args, Debug)]
pub struct ListArgs {
    #[command(flatten)]
    pattern: PatternArgs,
    /// Maximum number of keys; 0 = all
    #[arg(long, default_value_t = 100)]
    limit: usize,
}

#[derive(clap::Args, Debug)]
pub struct PatternArgs {
    /// Glob pattern of the keys
    #[arg(default_value = "*")]
    pattern: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
pub struct ShowArgs {
    /// The key, as it is or escaped like in `keys list`
    key: OsString,
    /// Maximum number of elements; 0 = all
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(
    command: &KeysCommand,
    loaded: &LoadedConfig,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    let keyspace = store_reader::keyspace(&loaded.config)?;
    let store = store_reader::open(&loaded.config).await?;
    match command {
        KeysCommand::List(args) => list(&store, &keyspace, args, output).await?,
        KeysCommand::Count(args) => count(&store, &keyspace, args, output).await?,
        KeysCommand::Show(args) => return show::run(&store, &keyspace, args, output).await,
        KeysCommand::Ttl(args) => ttl(&store, &keyspace, args, output).await?,
    }
    Ok(CommandStatus::Succeeded)
}

async fn list(
    store: &Store,
    keyspace: &Keyspace,
    args: &ListArgs,
    output: &mut Output,
) -> anyhow::Result<()> {
    let (mut found, complete) = collect_keys(store, keyspace, args).await?;
    found.sort_by(|a, b| a.key.cmp(&b.key));
    if args.pattern.json {
        let keys: Vec<_> = found.iter().map(KeyInfo::json).collect();
        return output.write_json(&json!({ "keys": keys, "complete": complete }));
    }
    let rows = found.iter().map(|info| {
        vec![
            info.display_name(),
            info.redis_type.clone(),
            info.ttl_text(),
            info.length.to_string(),
            info.meaning().to_owned(),
        ]
    });
    output.write_table(&["KEY", "TYPE", "TTL", "LENGTH", "MEANING"], rows.collect())
}

async fn ttl(
    store: &Store,
    keyspace: &Keyspace,
    args: &ListArgs,
    output: &mut Output,
) -> anyhow::Result<()> {
    let (mut found, complete) = collect_keys(store, keyspace, args).await?;
    found.sort_by_key(|info| (info.ttl.is_none(), info.ttl));
    let settings = keyspace.settings();
    if args.pattern.json {
        let keys = found.iter().map(|info| {
            let declared = info.spec.map(|spec| spec.ttl.describe(settings));
            let fits = info.spec.map(|spec| spec.allows_ttl(settings, info.ttl));
            json!({ "key": to_json_text(&info.key), "ttlMs": info.ttl_ms(), "declared": declared, "asDeclared": fits })
        });
        let keys: Vec<_> = keys.collect();
        return output.write_json(&json!({ "keys": keys, "complete": complete }));
    }
    let rows = found.iter().map(|info| {
        let (declared, check) = match info.spec {
            None => ("-".to_owned(), "unknown key"),
            Some(spec) if spec.allows_ttl(settings, info.ttl) => {
                (spec.ttl.describe(settings), "as declared")
            }
            Some(spec) if info.ttl.is_none() => (spec.ttl.describe(settings), "should have a TTL"),
            Some(spec) if spec.ttl == KeyTtl::Never => {
                (spec.ttl.describe(settings), "should have no TTL")
            }
            Some(spec) => (spec.ttl.describe(settings), "longer than declared"),
        };
        vec![
            info.display_name(),
            info.ttl_text(),
            declared,
            check.to_owned(),
        ]
    });
    output.write_table(&["KEY", "TTL", "DECLARED", "CHECK"], rows.collect())
}

async fn count(
    store: &Store,
    keyspace: &Keyspace,
    args: &PatternArgs,
    output: &mut Output,
) -> anyhow::Result<()> {
    let mut total = 0_u64;
    let mut undeclared = 0_u64;
    let mut declared: BTreeMap<String, (u64, &'static str)> = BTreeMap::new();
    let visit = &mut |key: &[u8]| {
        total += 1;
        match keyspace.match_key(key) {
            Some(found) => {
                let name = found.spec.pattern.text().to_owned();
                declared.entry(name).or_insert((0, found.spec.meaning)).0 += 1;
            }
            None => undeclared += 1,
        }
        true
    };
    store_reader::scan(store, &args.pattern, visit).await?;
    if args.json {
        let groups = declared.iter().map(|(name, (count, meaning))| json!({ "pattern": name, "count": count, "meaning": meaning }));
        let groups: Vec<_> = groups.collect();
        return output
            .write_json(&json!({ "total": total, "groups": groups, "notDeclared": undeclared }));
    }
    let mut rows: Vec<Vec<String>> = declared
        .into_iter()
        .map(|(name, (count, meaning))| vec![count.to_string(), name, meaning.to_owned()])
        .collect();
    if undeclared > 0 {
        rows.push(vec![
            undeclared.to_string(),
            "unknown key".into(),
            "Parlor does not write such keys with these layouts".into(),
        ]);
    }
    rows.push(vec![total.to_string(), "all".into(), String::new()]);
    output.write_table(&["COUNT", "PATTERN", "MEANING"], rows)
}

/// Scans for up to `limit` keys. The flag is true if there are no more.
async fn collect_keys(
    store: &Store,
    keyspace: &Keyspace,
    args: &ListArgs,
) -> anyhow::Result<(Vec<KeyInfo>, bool)> {
    let limit = if args.limit == 0 {
        usize::MAX
    } else {
        args.limit
    };
    let mut keys = Vec::new();
    let complete = store_reader::scan(store, &args.pattern.pattern, &mut |key| {
        let has_room = keys.len() < limit;
        if has_room {
            keys.push(key.to_vec());
        }
        has_room
    })
    .await?;
    if !complete {
        eprintln!("there are more than {limit} keys; --limit 0 shows all");
    } else if keys.is_empty() {
        eprintln!("no key matches {}", args.pattern.pattern);
    }
    Ok((load_key_infos(store, keyspace, keys).await?, complete))
}

/// A TTL as text. From 10 s on it is rounded up to seconds, so that elapsed milliseconds do not clutter it.
fn rounded_ttl(time: std::time::Duration) -> String {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let coarse = if ms >= 10_000 {
        ms.div_ceil(1_000) * 1_000
    } else {
        ms
    };
    format_duration(std::time::Duration::from_millis(coarse))
}
