//! What follows a change of members: the caches forget, and the nodes are told.
//!
//! Always true: when this has succeeded, no node answers from what was cached before the change, and none that reads slowly
//! can put it back.

use std::time::Duration;

use parlor_store::{LuaScript, script};

use crate::context::{ChatContext, duration_millis};
use crate::error::Result;
use crate::ids::{ConversationId, UserId};
use crate::keys::Key;

static INVALIDATE_MEMBERSHIP: LuaScript = script!("changed.lua");

/// How long a generation is kept: longer than any reader takes.
const GENERATION_TTL: Duration = Duration::from_secs(24 * 3_600);
/// Users whose answers one call forgets.
const MAX_USERS_PER_CALL: usize = 500;

/// Forgets what was known about these users in a conversation, and its participants, then publishes the frame on the
/// conversation's channel. `more` names further keys of the conversation that are to go.
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
    // One call at least: also a change of nobody makes slow readers read again.
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
