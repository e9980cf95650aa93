//! Updates of the counters in a conversation from the rows of its members. They repeat updates that a node may not have
//! made before it ended.
//!
//! Invariant: the cost of an update does not depend on the other conversations of the members.

use super::Unread;
use super::rows::{self, MemberPosition};
use super::update::{CounterUpdate, UpdateBatch};
use crate::api::error::Result;
use crate::ids::{ConversationId, UserId};

impl Unread {
    /// Updates the counters of these users in a conversation: users without a row are no members since this
    /// `members_version`.
    pub(crate) async fn update_from_rows(
        &self,
        conversation: &ConversationId,
        users: &[UserId],
        members_version: u64,
    ) -> Result<()> {
        let mut updates = Vec::with_capacity(users.len());
        for user in users {
            let position = rows::find_position(&self.database, conversation, user).await?;
            let update = position.as_ref().map(CounterUpdate::from);
            updates.push((
                user,
                update.unwrap_or(CounterUpdate::Left { members_version }),
            ));
        }
        self.apply_updates(conversation, &updates, true).await
    }

    /// Updates the counters of all members in those of these conversations that are not above the fan-out limit.
    pub(crate) async fn update_conversations_from_rows(
        &self,
        conversations: &[ConversationId],
    ) -> Result<()> {
        let limit = self.fanout_limit;
        let positions = rows::find_positions_in(&self.database, conversations, limit).await?;
        let batches: Vec<UpdateBatch<'_>> = positions
            .chunk_by(|a, b| a.conversation_id == b.conversation_id)
            .map(|members| UpdateBatch {
                conversation: &members[0].conversation_id,
                updates: members.iter().map(update_of).collect(),
            })
            .collect();
        self.apply_batches(&batches).await
    }
}

fn update_of(position: &MemberPosition) -> (&UserId, CounterUpdate) {
    (&position.user_id, CounterUpdate::from(position))
}
