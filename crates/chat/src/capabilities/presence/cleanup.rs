//! `parlor cleanup presence`: sets a TTL on documented keys that a crash has left without one.
//!
//! Invariants:
//! 1. Nothing is changed while a node is alive, because a living node removes the devices of dead ones.
//! 2. Only keys that Parlor has written are changed: the user has a presence state, and all sockets in the set belong to
//!    it.

use std::time::Duration;

use parlor_store::{LuaScript, script};

use crate::api::error::Result;
use crate::clock::duration_millis;
use crate::context::ChatContext;
use crate::ids::{IdKind, NodeId, UserId};
use crate::keys::{Key, PresenceLayout, TtlName};

static EXPIRE_ONLINE_KEYS: LuaScript = script!("scripts/expire_online_keys.lua");

/// Keys per page of a `SCAN`.
const SCAN_PAGE_SIZE: usize = 500;

/// Result of a cleanup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PresenceCleanup {
    /// This layout has no key without a TTL that says that a user is online.
    NotNeeded(PresenceLayout),
    /// This node is alive.
    NodeAlive(NodeId),
    /// Number of users whose keys have got a TTL, or would get one.
    Users(u64),
}

/// Sets the TTL of the keys of users who are online by nodes that have crashed, or only reports them. `visit` is called
/// with each of them: the key of the flag, and the TTL.
pub async fn clean_up_presence(
    ctx: &ChatContext,
    grace_period: Duration,
    applies: bool,
    mut visit: impl FnMut(&Key, Duration),
) -> Result<PresenceCleanup> {
    let keys = ctx.keys();
    let layout = keys.settings().layouts.presence;
    if layout != PresenceLayout::Sockets {
        return Ok(PresenceCleanup::NotNeeded(layout));
    }
    if let Some(node) = find_living_node(ctx).await? {
        return Ok(PresenceCleanup::NodeAlive(node));
    }
    let ttl = keys.ttl(TtlName::NodeLease) + grace_period;
    let pattern = format!("{}user:*:online", keys.settings().prefix);
    let mut users = 0;
    let store = ctx.store().clone();
    let mut scan = store.scan(&pattern, SCAN_PAGE_SIZE);
    while let Some(page) = scan.next().await? {
        for user in page.iter().filter_map(|key| parse_online_key(ctx, key)) {
            let flag = keys.presence_online(&user);
            let call = EXPIRE_ONLINE_KEYS
                .keys(&[
                    keys.presence_state(&user),
                    flag.clone(),
                    keys.presence_sockets(&user),
                ])
                .arg(&user)
                .arg(duration_millis(ttl))
                .arg(u8::from(applies));
            let is_left_over: bool = call.run(&ctx.store().idempotent()).await?;
            if is_left_over {
                users += 1;
                visit(&flag, ttl);
            }
        }
    }
    Ok(PresenceCleanup::Users(users))
}

async fn find_living_node(ctx: &ChatContext) -> Result<Option<NodeId>> {
    let mut index = redis::cmd("ZRANGE");
    index.arg(ctx.keys().node_index()).arg(0).arg(-1);
    let nodes: Vec<String> = index.query_async(&mut ctx.store().clone()).await?;
    for node in nodes
        .iter()
        .filter_map(|node| NodeId::new(node.as_str()).ok())
    {
        let mut exists = redis::cmd("EXISTS");
        exists.arg(ctx.keys().node_lease(&node));
        if exists.query_async(&mut ctx.store().clone()).await? {
            return Ok(Some(node));
        }
    }
    Ok(None)
}

/// The user of a key `user:{user}:online`.
fn parse_online_key(ctx: &ChatContext, key: &[u8]) -> Option<UserId> {
    let found = ctx.keys().match_key(key)?;
    let (_, user) = found.ids.iter().find(|(kind, _)| *kind == IdKind::User)?;
    let user = UserId::new(*user).ok()?;
    let is_flag = ctx.keys().presence_online(&user).as_str().as_bytes() == key;
    is_flag.then_some(user)
}
