//! Invalidates the membership caches after a change of members, and publishes the change to the nodes.
//!
//! Invariant: after success no node answers from data that was cached before the change, and a slow reader cannot cache
//! such data again.

use parlor_store::{LuaScript, script};

use super::Conversations;
use super::keys::GENERATION_TTL_SECONDS;
use super::model::MembershipChange;
use crate::api::error::Result;

static INVALIDATE_MEMBERSHIP: LuaScript = script!("scripts/invalidate_membership.lua");

/// Maximum number of keys that one script call deletes.
const MAX_KEYS_PER_CALL: usize = 1_000;

impl Conversations {
    /// Deletes the cached answers about the users of a change and the cached participants, then publishes the frame on
    /// the conversation's channel.
    pub(super) async fn invalidate_and_publish(&self, change: &MembershipChange) -> Result<()> {
        let (keys, store) = (self.ctx.keys(), self.ctx.store());
        let conversation = &change.conversation;
        let mut stale = vec![
            (keys.participants(conversation), "set"),
            (keys.participants_version(conversation), "string"),
        ];
        if change.deleted {
            stale.push((keys.recent_list(conversation), "list"));
            stale.push((keys.apply_watermark(conversation), "string"));
        }
        for (user, _) in &change.users {
            stale.push((keys.membership(conversation, user), "string"));
            stale.push((keys.membership_epoch(conversation, user), "string"));
        }
        let frame = change.members_changed_frame();
        // A change without users, too, must prevent slow readers from caching what they have read.
        for stale in stale.chunks(MAX_KEYS_PER_CALL) {
            let mut names = vec![keys.membership_generation(conversation)];
            names.extend(stale.iter().map(|(key, _)| key.clone()));
            let types: Vec<&str> = stale.iter().map(|(_, kind)| *kind).collect();
            let call = INVALIDATE_MEMBERSHIP
                .keys(&names[..])
                .arg(GENERATION_TTL_SECONDS * 1_000)
                .arg(store.bus().publish_command())
                .arg(keys.conversation_channel(conversation))
                .arg(&frame)
                .arg(types);
            let () = call.run(&store.idempotent()).await?;
        }
        Ok(())
    }
}
