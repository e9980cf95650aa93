//! Outbox entries of messages: changes that may not be published, and conversations that could not be applied.
//!
//! Invariant: an entry names the message or the conversation, and the rows have the content.

use serde::{Deserialize, Serialize};

use super::Messages;
use super::rows;
use crate::api::error::Result;
use crate::conversations::outbox_subject;
use crate::ids::ConversationId;
use crate::outbox::{OutboxHandler, OutboxPayload};

/// A message was edited or deleted.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ChangedMessage {
    pub(super) conversation: ConversationId,
    pub(super) seq: u64,
}

/// The store has rejected the messages or the unread counters of a conversation, for example because a key has a foreign
/// type.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct UnappliedConversation {
    pub(super) conversation: ConversationId,
}

impl OutboxPayload for ChangedMessage {
    const KIND: &'static str = "message_changed";

    fn subject(&self) -> String {
        outbox_subject(&self.conversation)
    }
}

impl OutboxPayload for UnappliedConversation {
    const KIND: &'static str = "messages_unapplied";

    fn subject(&self) -> String {
        format!("messages:{}", self.conversation)
    }
}

impl OutboxHandler<ChangedMessage> for Messages {
    async fn apply(&self, changed: ChangedMessage) -> Result<()> {
        let ChangedMessage { conversation, seq } = changed;
        let (before, after) = (seq.saturating_sub(1), seq.saturating_add(1));
        let read = rows::find_between(&self.database, &conversation, before, after).await?;
        let Some(mut read) = read else { return Ok(()) };
        match read.rows.pop() {
            Some(row) => {
                self.publish_change(&conversation, row, read.head.members_version)
                    .await
            }
            None => Ok(()),
        }
    }
}

impl OutboxHandler<UnappliedConversation> for Messages {
    async fn apply(&self, unapplied: UnappliedConversation) -> Result<()> {
        let conversations = [unapplied.conversation];
        self.apply_unapplied(&conversations[0]).await?;
        self.unread
            .update_conversations_from_rows(&conversations)
            .await
    }
}
