//! Finds hashes of other applications at the names of sessions.

use parlor_chat::ids::{IdKind, UserId};
use parlor_chat::keys::{Keyspace, SessionLayout};
use parlor_store::Store;
use redis::RedisResult;

use super::super::escape::escape;
use super::super::store_reader::{query_each_key, query_keys, scan};
use super::{Finding, list_some};

/// Maximum number of hashes that are checked.
const MAX_CHECKED_KEYS: usize = 10_000;

/// Names the hashes that Parlor leaves alone because they are no sessions. `None` if there are none.
pub async fn check_session_keys(store: &Store, keyspace: &Keyspace) -> Option<Finding> {
    if keyspace.settings().layouts.session == SessionLayout::Off {
        return None;
    }
    // The check of key types reports a store that cannot be read.
    let foreign = find_foreign_hashes(store, keyspace).await.ok()?;
    let named = list_some(foreign.iter().map(|key| escape(key)), ", ");
    (!foreign.is_empty()).then(|| {
        Finding::info(
            "sessions",
            format!(
                "{named} have no `device_id`, so they belong to another application: Parlor does not change them, and \
                 stores the sessions of these users in the database only"
            ),
        )
    })
}

async fn find_foreign_hashes(store: &Store, keyspace: &Keyspace) -> RedisResult<Vec<Vec<u8>>> {
    let pattern = format!("{}user:*", keyspace.settings().prefix);
    let mut keys = Vec::new();
    scan(store, &pattern, &mut |key| {
        if is_session_key(keyspace, key) {
            keys.push(key.to_vec());
        }
        keys.len() < MAX_CHECKED_KEYS
    })
    .await?;
    let mut foreign = Vec::new();
    for batch in keys.chunks(256) {
        let types: Vec<String> = query_each_key(store, "TYPE", batch).await?;
        let hashes = batch.iter().zip(types).filter(|(_, kind)| kind == "hash");
        let hashes: Vec<&Vec<u8>> = hashes.map(|(key, _)| key).collect();
        let devices = hashes
            .iter()
            .map(|key| redis::cmd("HGET").arg(key).arg("device_id").take());
        let devices: Vec<Option<Vec<u8>>> = query_keys(store, devices.collect()).await?;
        let without_device = hashes.into_iter().zip(devices);
        let without_device =
            without_device.filter(|(_, device)| device.as_ref().is_none_or(Vec::is_empty));
        foreign.extend(without_device.map(|(key, _)| key.clone()));
    }
    Ok(foreign)
}

/// True if the key has the name of a session.
fn is_session_key(keyspace: &Keyspace, key: &[u8]) -> bool {
    let Some(found) = keyspace.match_key(key) else {
        return false;
    };
    let user = found.ids.iter().find(|(kind, _)| *kind == IdKind::User);
    let user = user.and_then(|(_, id)| UserId::new(*id).ok());
    user.is_some_and(|user| keyspace.session(&user).as_str().as_bytes() == key)
}
