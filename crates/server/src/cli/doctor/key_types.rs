//! Finds keys that have another type than declared, written by another program or with another layout.

use std::collections::HashMap;

use parlor_chat::keys::Keyspace;

use super::super::escape::escaped;
use super::super::output::error_chain;
use super::super::store_reader::Reader;
use super::Finding;

/// Maximum number of scanned keys.
const MAX_SCANNED_KEYS: usize = 1_000_000;
/// Maximum number of keys per declaration whose type is checked, so that frequent keys do not displace rare ones.
const MAX_CHECKED_PER_PATTERN: usize = 1_000;
/// Maximum number of keys in the message.
const MAX_NAMED_KEYS: usize = 5;

/// Checks the types of declared keys with the configured prefix.
pub async fn check_key_types(reader: &Reader, keyspace: &Keyspace, cli: &str) -> Finding {
    match examine(reader, keyspace, cli).await {
        Ok(finding) => finding,
        Err(error) => Finding::warn(
            "keys",
            format!("could not be read: {}", error_chain(error.as_ref())),
            "allow this user SCAN and TYPE",
        ),
    }
}

async fn examine(reader: &Reader, keyspace: &Keyspace, cli: &str) -> anyhow::Result<Finding> {
    let pattern = format!("{}*", keyspace.settings().prefix);
    let (mut seen, mut ours) = (0_usize, Vec::new());
    let mut asked: HashMap<&str, usize> = HashMap::new();
    let walked = reader
        .scan(&pattern, &mut |key| {
            seen += 1;
            let spec = keyspace.match_key(key).map(|found| found.spec);
            if let Some((spec, declared)) =
                spec.and_then(|spec| Some((spec, spec.kind.redis_type()?)))
            {
                let count = asked.entry(spec.pattern.text()).or_default();
                *count += 1;
                if *count <= MAX_CHECKED_PER_PATTERN {
                    ours.push((key.to_vec(), declared));
                }
            }
            seen < MAX_SCANNED_KEYS
        })
        .await?;
    let complete = walked
        && asked
            .values()
            .all(|count| *count <= MAX_CHECKED_PER_PATTERN);
    let mut wrong = Vec::new();
    for batch in ours.chunks(256) {
        let types = batch
            .iter()
            .map(|(key, _)| redis::cmd("TYPE").arg(key).take())
            .collect();
        let types: Vec<String> = reader.query_keys(types).await?;
        let differ = batch
            .iter()
            .zip(types)
            .filter(|((_, declared), actual)| actual != "none" && actual != declared);
        wrong.extend(differ.map(|((key, declared), actual)| (escaped(key), *declared, actual)));
    }
    let scope = if complete {
        format!("all {seen} keys")
    } else {
        format!(
            "{} of {seen} keys, up to {MAX_CHECKED_PER_PATTERN} of each kind",
            ours.len()
        )
    };
    if wrong.is_empty() {
        return Ok(Finding::ok(
            "keys",
            format!("no key has a wrong type, in {scope}"),
        ));
    }
    let named: Vec<String> = wrong
        .iter()
        .take(MAX_NAMED_KEYS)
        .map(|(key, declared, actual)| format!("{key} is a {actual} and should be a {declared}"))
        .collect();
    let more = wrong.len().saturating_sub(MAX_NAMED_KEYS);
    let more = if more > 0 {
        format!(", and {more} more")
    } else {
        String::new()
    };
    let mend = format!(
        "`{cli} RENAME '{0}' 'old:{0}'`, or set another keys.prefix or keys.preset",
        wrong[0].0
    );
    Ok(Finding::fail(
        "keys",
        format!("in {scope}: {}{more}", named.join("; ")),
        mend,
    ))
}
