//! Publishes a changed title, `open`, `history` or priority of a conversation to nodes and users.
//!
//! Invariants:
//! 1. An update does not depend on the store: it is acknowledged after its commit. If publishing fails or is cancelled,
//!    the outbox publishes the row later.
//! 2. A frame carries the `version` of the conversation, so a late frame has no effect.

use serde::{Deserialize, Serialize};

use super::model::Conversation;
use super::publish::outbox_subject;
use super::rows::ConversationRow;
use super::{Conversations, MAX_LISTED_PARTICIPANTS};
use crate::api::error::Result;
use crate::background::log_failure;
use crate::bus::frame::{self, BusFrameKind};
use crate::database::WriteTransaction;
use crate::failpoint::failpoint;
use crate::ids::ConversationId;
use crate::outbox::{self, OutboxHandler, OutboxPayload};

/// Entry of the outbox: fields of this conversation were changed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct UpdatedConversation {
    conversation: ConversationId,
}

impl OutboxPayload for UpdatedConversation {
    const KIND: &'static str = "conversation_updated";

    fn subject(&self) -> String {
        outbox_subject(&self.conversation)
    }
}

impl OutboxHandler<UpdatedConversation> for Conversations {
    async fn apply(&self, updated: UpdatedConversation) -> Result<()> {
        match self.find_conversation(&updated.conversation).await? {
            Some(row) => self.publish_update(&row).await,
            None => Ok(()),
        }
    }
}

impl Conversations {
    /// Commits an update and publishes it. Publishing cannot make the call fail.
    pub(super) async fn commit_and_publish_update(
        &self,
        mut tx: WriteTransaction,
        row: &ConversationRow,
    ) -> Result<()> {
        let updated = UpdatedConversation {
            conversation: row.id.clone(),
        };
        let entry = outbox::insert(&mut tx, self.ctx.now(), &updated).await?;
        tx.commit().await?;
        failpoint!(self.ctx, "conversation.committed");
        let published = self.publish_update(row).await;
        log_failure("publish an updated conversation", &published);
        if published.is_ok() {
            entry.acknowledge(&self.database);
        }
        Ok(())
    }

    /// Publishes an updated conversation: to the nodes, and to each member if the conversation is not above the fan-out
    /// limit.
    async fn publish_update(&self, row: &ConversationRow) -> Result<()> {
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
}
