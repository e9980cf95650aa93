//! Keys of a foreign type where ours belong: another program's, or an older layout's.

use parlor_chat::keys::Keyspace;

use super::super::keys::facts::readable;
use super::super::reader::Reader;
use super::Finding;

/// Keys that are looked at, at most.
const SAMPLE: usize = 10_000;
/// Keys that are named, at most.
const NAMED: usize = 5;

/// Looks at a sample of the keys under our prefix.
pub async fn foreign(reader: &Reader, keyspace: &Keyspace) -> Finding {
    match sample(reader, keyspace).await {
        Ok(finding) => finding,
        Err(error) => Finding::warn(
            "keys",
            format!("could not be read: {error:#}"),
            "allow SCAN and TYPE to this user",
        ),
    }
}

async fn sample(reader: &Reader, keyspace: &Keyspace) -> anyhow::Result<Finding> {
    let pattern = format!("{}*", keyspace.settings().prefix);
    let (mut seen, mut ours) = (0_usize, Vec::new());
    let complete = reader
        .scan(&pattern, &mut |key| {
            seen += 1;
            let declared = keyspace
                .match_key(key)
                .and_then(|found| found.spec.kind.stored_type());
            if let Some(declared) = declared {
                ours.push((key.to_vec(), declared));
            }
            seen < SAMPLE
        })
        .await?;
    let mut wrong = Vec::new();
    for batch in ours.chunks(256) {
        let types = batch
            .iter()
            .map(|(key, _)| redis::cmd("TYPE").arg(key).take())
            .collect();
        let types: Vec<String> = reader.ask_each(types).await?;
        let differ = batch
            .iter()
            .zip(types)
            .filter(|((_, declared), actual)| actual != "none" && actual != declared);
        wrong.extend(differ.map(|((key, declared), actual)| (readable(key), *declared, actual)));
    }
    let scope = if complete {
        format!("all {seen} keys")
    } else {
        format!("a sample of {seen} keys")
    };
    if wrong.is_empty() {
        return Ok(Finding::ok(
            "keys",
            format!("no key of a foreign type where ours belong, in {scope}"),
        ));
    }
    let named: Vec<String> = wrong
        .iter()
        .take(NAMED)
        .map(|(key, declared, actual)| format!("{key} is a {actual} and should be a {declared}"))
        .collect();
    let more = wrong.len().saturating_sub(NAMED);
    let more = if more > 0 {
        format!(", and {more} more")
    } else {
        String::new()
    };
    let mend = format!(
        "`redis-cli RENAME '{0}' 'old:{0}'`, or another keys.prefix or keys.preset",
        wrong[0].0
    );
    Ok(Finding::fail(
        "keys",
        format!("in {scope}: {}{more}", named.join("; ")),
        mend,
    ))
}
