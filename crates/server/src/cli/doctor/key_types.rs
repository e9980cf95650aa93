//! Finds keys that have another type than declared, written by another program or with another layout.

use std::collections::HashMap;

use parlor_chat::keys::Keyspace;
use parlor_store::Store;

use super::super::escape::escape;
use super::super::output::error_chain;
use super::super::store_reader::{query_each_key, scan};
use super::{Finding, list_some};

/// Maximum number of scanned keys.
const MAX_SCANNED_KEYS: usize = 1_000_000;
/// Maximum number of keys per declaration whose type is checked, so that frequent keys do not displace rare ones.
const MAX_CHECKED_PER_PATTERN: usize = 1_000;

/// Checks the types of declared keys with the configured prefix.
pub async fn check_key_types(store: &Store, keyspace: &Keyspace, cli: &str) -> Finding {
    match find_wrong_types(store, keyspace, cli).await {
        Ok(finding) => finding,
        Err(error) => Finding::warn(
            "keys",
            format!("could not be read: {}", error_chain(error.as_ref())),
            "allow this user SCAN and TYPE",
        ),
    }
}

async fn find_wrong_types(
    store: &Store,
    keyspace: &Keyspace,
    cli: &str,
) -> anyhow::Result<Finding> {
    let pattern = format!("{}*", keyspace.settings().prefix);
    let (mut seen, mut to_check) = (0_usize, Vec::new());
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let scanned_all = scan(store, &pattern, &mut |key| {
        seen += 1;
        let spec = keyspace.match_key(key).map(|found| found.spec);
        if let Some((spec, declared)) = spec.and_then(|spec| Some((spec, spec.kind.redis_type()?)))
        {
            let count = counts.entry(spec.pattern.text()).or_default();
            *count += 1;
            if *count <= MAX_CHECKED_PER_PATTERN {
                to_check.push((key.to_vec(), declared));
            }
        }
        seen < MAX_SCANNED_KEYS
    })
    .await?;
    let complete = scanned_all
        && counts
            .values()
            .all(|count| *count <= MAX_CHECKED_PER_PATTERN);
    let mut mismatches = Vec::new();
    for batch in to_check.chunks(256) {
        let keys = batch.iter().map(|(key, _)| key);
        let types: Vec<String> = query_each_key(store, "TYPE", keys).await?;
        let differ = batch
            .iter()
            .zip(types)
            .filter(|((_, declared), actual)| actual != "none" && actual != declared);
        mismatches.extend(differ.map(|((key, declared), actual)| (escape(key), *declared, actual)));
    }
    let scope = if complete {
        format!("all {seen} keys")
    } else {
        format!(
            "{} of {seen} keys, up to {MAX_CHECKED_PER_PATTERN} of each kind",
            to_check.len()
        )
    };
    if mismatches.is_empty() {
        return Ok(Finding::ok(
            "keys",
            format!("no key has a wrong type, in {scope}"),
        ));
    }
    let named = mismatches
        .iter()
        .map(|(key, declared, actual)| format!("{key} is a {actual} and should be a {declared}"));
    let fix = format!(
        "`{cli} RENAME '{0}' 'old:{0}'`, or set another keys.prefix or keys.preset",
        mismatches[0].0
    );
    Ok(Finding::fail(
        "keys",
        format!("in {scope}: {}", list_some(named, "; ")),
        fix,
    ))
}
