//! Outbox entries of marked positions: a member has read, marked as unread or muted, and the keys may not show it.
//!
//! Invariant: an entry names the member, and the row has the position, so the order of entries has no effect.

use serde::{Deserialize, Serialize};

use super::Unread;
use super::rows;
use super::update::CounterUpdate;
use crate::api::error::Result;
use crate::ids::{ConversationId, UserId};
use crate::outbox::{OutboxHandler, OutboxPayload};

/// A member whose position was marked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MarkedPosition {
    pub(super) conversation: ConversationId,
    pub(super) user: UserId,
}

impl OutboxPayload for MarkedPosition {
    const KIND: &'static str = "position_marked";

    fn subject(&self) -> String {
        format!("position:{}:{}", self.conversation, self.user)
    }
}

impl OutboxHandler<MarkedPosition> for Unread {
    async fn apply(&self, marked: MarkedPosition) -> Result<()> {
        let MarkedPosition { conversation, user } = &marked;
        let position = rows::find_position(&self.database, conversation, user).await?;
        // The entry of a removal updates the keys of a former member.
        let Some(position) = position else {
            return Ok(());
        };
        let update = CounterUpdate::from(&position);
        self.apply_updates(conversation, &[(user, update)], true)
            .await
    }
}
