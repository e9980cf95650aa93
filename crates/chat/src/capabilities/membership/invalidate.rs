//! Invalidates the membership caches after a change of members, and publishes the change to the nodes.
//!
//! Invariant: after success no node answers from data that was cached before the change, and a slow reader cannot cache
//! such data again.

use std::time::Duration;

use parlor_store::{LuaScript, script};

use crate::api::error::Result;
use crate::context::{ChatContext, duration_millis};
use crate::ids::{ConversationId, UserId};
use crate::keys::Key;

static INVALIDATE_MEMBERSHIP: LuaScript = script!("scripts/invalidate_membership.lua");

/// TTL of the generation: longer than any read of rows takes.
const GENERATION_TTL: Duration = Duration::from_secs(24 * 3_600);
/// Maximum number of users per script call.
const MAX_USERS_PER_CALL: usize = 500;

/// Deletes the cached answers about these users and the cached participants of a conversation, then publishes the frame
/// on the conversation's channel. `extra_keys` are further keys of the conversation to delete.
pub(crate) async fn invalidate_and_publish(
    ctx: &ChatContext,
    conversation: &ConversationId,
    users: &[UserId],
    more: &[Key],
    frame: &[u8],
) -> Result<()> {
    let keys = ctx.keys();
    let mut first = vec![
        keys.participants(conversation),
        keys.participants_version(conversation),
    ];
    first.extend_from_slice(more);
    // At least one call: a change without users must also prevent slow readers from caching what they have read.
    let calls = users.len().div_ceil(MAX_USERS_PER_CALL).max(1);
    let mut chunks = users.chunks(MAX_USERS_PER_CALL);
    for _ in 0..calls {
        let users = chunks.next().unwrap_or_default();
        let mut names = vec![keys.membership_generation(conversation)];
        names.append(&mut first);
        for user in users {
            names.push(keys.membership(conversation, user));
            names.push(keys.membership_epoch(conversation, user));
        }
        let call = INVALIDATE_MEMBERSHIP
            .keys(&names[..])
            .arg(duration_millis(GENERATION_TTL))
            .arg(ctx.store().bus().publish_command())
            .arg(keys.conversation_channel(conversation))
            .arg(frame);
        let () = call.run(&ctx.store().idempotent()).await?;
    }
    Ok(())
}
