//! Copies or compares one key.

use redis::RedisResult;

use super::super::escape::escape;
use super::super::redis_value::is_readable;
use super::copy_value::{self, MigrationStore};

/// A key to copy.
pub struct KeyToCopy<'a> {
    /// Name in the source.
    pub source_name: &'a [u8],
    /// Name in the target.
    pub target_name: Vec<u8>,
    /// Capability of the key.
    pub capability: &'static str,
}

/// Result of copying or comparing a key.
pub enum KeyComparison {
    /// The key is equal in source and target.
    Same,
    /// The key differs; the text describes the difference.
    Different(String),
    /// The key no longer exists in the source.
    Missing,
}

/// Makes the key in the target equal to the source. Returns `Same` if it was equal before.
pub async fn copy_key(
    source: &MigrationStore,
    target: &MigrationStore,
    item: &KeyToCopy<'_>,
) -> RedisResult<KeyComparison> {
    let (key, name) = (item.source_name, &item.target_name[..]);
    let Some(entry) = source.key_header(key).await? else {
        return Ok(KeyComparison::Missing);
    };
    if !is_readable(&entry.kind) {
        return Ok(KeyComparison::Missing);
    }
    if let Some(there) = target.key_header(name).await?
        && there.kind == entry.kind
        && copy_value::same_value((source, key), (target, name), &entry.kind).await?
    {
        if !copy_value::same_deadline((source, &entry), (target, &there)) {
            copy_value::set_deadline(target, name, &entry).await?;
        }
        return Ok(KeyComparison::Same);
    }
    copy_value::copy_value((source, key), (target, name), &entry).await?;
    Ok(KeyComparison::Different(String::new()))
}

/// Compares the key in source and target.
pub async fn compare_key(
    source: &MigrationStore,
    target: &MigrationStore,
    item: &KeyToCopy<'_>,
) -> RedisResult<KeyComparison> {
    let (key, name) = (item.source_name, &item.target_name[..]);
    let Some(entry) = source.key_header(key).await? else {
        return Ok(KeyComparison::Missing);
    };
    let shown = escape(name);
    let what = match target.key_header(name).await? {
        _ if !is_readable(&entry.kind) => {
            format!("{shown} has the type {}, which is not copied", entry.kind)
        }
        None => format!("{shown} is missing"),
        Some(there) if there.kind != entry.kind => {
            format!("{shown} is a {} and should be a {}", there.kind, entry.kind)
        }
        Some(there) if !copy_value::same_deadline((source, &entry), (target, &there)) => {
            format!("{shown} has another expiry time")
        }
        Some(_) if copy_value::same_value((source, key), (target, name), &entry.kind).await? => {
            return Ok(KeyComparison::Same);
        }
        Some(_) => format!("{shown} has another value"),
    };
    // The key may have expired in the meantime, and not on both sides at exactly the same time.
    let gone = source.key_header(key).await?.is_none();
    Ok(if gone {
        KeyComparison::Missing
    } else {
        KeyComparison::Different(what)
    })
}
