//! Publishes a changed title, `open`, `history` or priority of a conversation to nodes and users.
//!
//! Invariants:
//! 1. An update does not depend on the store: it is acknowledged after its commit. If publishing fails or is cancelled,
//!    a background task repeats it with the current row.
//! 2. A frame carries the `version` of the conversation, so a late frame has no effect.

use super::model::Conversation;
use super::rows::ConversationRow;
use super::{Conversations, MAX_LISTED_PARTICIPANTS};
use crate::api::error::Result;
use crate::bus::frame::{self, BusFrameKind};

/// Maximum number of conversations that a retry publishes at a time.
const MAX_RETRIED_UPDATES: usize = 100;

impl Conversations {
    /// Publishes an updated conversation: to the nodes, and to each member if the conversation is not above the fan-out
    /// limit.
    pub(super) async fn publish_update(&self, row: &ConversationRow) -> Result<()> {
        let (keys, bus) = (self.ctx.keys(), self.ctx.store().bus());
        let body = Conversation::from(row.clone());
        let frame = frame::encode_json(BusFrameKind::ConversationUpdated, &body);
        let mut channels = vec![keys.conversation_channel(&row.id)];
        let max_members = self
            .unread
            .fanout_limit()
            .min(MAX_LISTED_PARTICIPANTS as u64);
        if row.member_count <= max_members {
            let members = self.participants_at(&row.id, row.members_version).await?;
            channels.extend(members.iter().map(|user| keys.user_channel(user)));
        }
        let mut pipe = redis::pipe();
        for channel in channels {
            pipe.cmd(bus.publish_command())
                .arg(channel)
                .arg(&frame)
                .ignore();
        }
        let mut store = self.ctx.store().idempotent();
        Ok(pipe.exec_async(&mut store).await?)
    }

    /// Publishes the updates that could not be published. The background task calls this.
    pub async fn retry_updates(&self) -> Result<()> {
        let ids = self.unpublished_updates.take_up_to(MAX_RETRIED_UPDATES);
        let guard = self.unpublished_updates.guard(ids.iter().cloned());
        for id in &ids {
            if let Some(row) = self.find_conversation(id).await? {
                self.publish_update(&row).await?;
            }
        }
        guard.complete();
        Ok(())
    }
}
