//! What is done with one key: copied, or compared.

use redis::RedisResult;

use super::super::keys::text::escaped;
use super::value::{self, MigrationStore};

/// A key that moves.
pub struct KeyToCopy<'a> {
    /// What it is called in the source.
    pub key: &'a [u8],
    /// What it is called in the target.
    pub name: Vec<u8>,
    /// The capability it belongs to.
    pub part: &'static str,
}

/// What was found out about a key.
pub enum Seen {
    /// It is the same on both sides.
    Same,
    /// It is not, and what is different.
    Different(String),
    /// It is no longer in the source.
    Gone,
}

/// Makes the key in the target the same. `Same` if it was.
pub async fn copy(
    source: &MigrationStore,
    target: &MigrationStore,
    moving: &KeyToCopy<'_>,
) -> RedisResult<Seen> {
    let (key, name) = (moving.key, &moving.name[..]);
    let Some(entry) = source.entry(key).await? else {
        return Ok(Seen::Gone);
    };
    if !value::is_copyable(&entry.kind) {
        return Ok(Seen::Gone);
    }
    if let Some(there) = target.entry(name).await?
        && there.kind == entry.kind
        && value::same_value((source, key), (target, name), &entry.kind).await?
    {
        if !value::same_deadline((source, &entry), (target, &there)) {
            value::set_deadline(target, name, &entry).await?;
        }
        return Ok(Seen::Same);
    }
    value::write((source, key), (target, name), &entry).await?;
    Ok(Seen::Different(String::new()))
}

/// Compares the key on both sides.
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
        _ if !value::is_copyable(&entry.kind) => {
            format!("{shown} has the type {}, which is not copied", entry.kind)
        }
        None => format!("{shown} is missing"),
        Some(there) if there.kind != entry.kind => {
            format!("{shown} is a {} and should be a {}", there.kind, entry.kind)
        }
        Some(there) if !value::same_deadline((source, &entry), (target, &there)) => {
            format!("{shown} has another expiry time")
        }
        Some(_) if value::same_value((source, key), (target, name), &entry.kind).await? => {
            return Ok(Seen::Same);
        }
        Some(_) => format!("{shown} has another value"),
    };
    // It may have gone by itself meanwhile, on one side sooner than on the other.
    let gone = source.entry(key).await?.is_none();
    Ok(if gone {
        Seen::Gone
    } else {
        Seen::Different(what)
    })
}
