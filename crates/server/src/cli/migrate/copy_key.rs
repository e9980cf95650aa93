//! Copies or compares one key.

use redis::RedisResult;

use super::super::escape::escaped;
use super::copy_value::{self, MigrationStore};

/// A key to copy.
pub struct KeyToCopy<'a> {
    /// Name in the source.
    pub key: &'a [u8],
    /// Name in the target.
    pub name: Vec<u8>,
    /// Capability of the key.
    pub part: &'static str,
}

/// Result of copying or comparing a key.
pub enum Seen {
    /// The key is equal in source and target.
    Same,
    /// The key differs; the text describes the difference.
    Different(String),
    /// The key no longer exists in the source.
    Gone,
}

/// Makes the key in the target equal to the source. Returns `Same` if it was equal before.
pub async fn copy(
    source: &MigrationStore,
    target: &MigrationStore,
    moving: &KeyToCopy<'_>,
) -> RedisResult<Seen> {
    let (key, name) = (moving.key, &moving.name[..]);
    let Some(entry) = source.entry(key).await? else {
        return Ok(Seen::Gone);
    };
    if !copy_value::is_copyable(&entry.kind) {
        return Ok(Seen::Gone);
    }
    if let Some(there) = target.entry(name).await?
        && there.kind == entry.kind
        && copy_value::same_value((source, key), (target, name), &entry.kind).await?
    {
        if !copy_value::same_deadline((source, &entry), (target, &there)) {
            copy_value::set_deadline(target, name, &entry).await?;
        }
        return Ok(Seen::Same);
    }
    copy_value::write((source, key), (target, name), &entry).await?;
    Ok(Seen::Different(String::new()))
}

/// Compares the key in source and target.
pub async fn compare(
    source: &MigrationStore,
    target: &MigrationStore,
    moving: &KeyToCopy<'_>,
) -> RedisResult<Seen> {
    let (key, name) = (moving.key, &moving.name[..]);
    let Some(entry) = source.entry(key).await? else {
        return Ok(Seen::Gone);
    };
    let shown = escaped(name);
    let what = match target.entry(name).await? {
        _ if !copy_value::is_copyable(&entry.kind) => {
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
            return Ok(Seen::Same);
        }
        Some(_) => format!("{shown} has another value"),
    };
    // The key may have expired in the meantime, and not on both sides at exactly the same time.
    let gone = source.entry(key).await?.is_none();
    Ok(if gone {
        Seen::Gone
    } else {
        Seen::Different(what)
    })
}
