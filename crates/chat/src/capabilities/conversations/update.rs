//! Updates and deletes conversations.
//!
//! Invariant: the caller's role is checked before the conversation's row is locked, and again in the transaction that
//! holds the lock.

use super::model::{ConversationPatch, MemberTransition, MembershipChange};
use super::permissions::{self, conversation_not_found};
use super::rows::{self, ConversationRow};
use super::validate::validate_patch;
use super::{Conversations, member_rows, retry_on_conflict};
use crate::api::caller::Caller;
use crate::api::error::Result;
use crate::ids::ConversationId;

impl Conversations {
    /// Changes fields of a conversation.
    pub(super) async fn update(
        &self,
        caller: &Caller,
        id: &ConversationId,
        patch: ConversationPatch,
    ) -> Result<ConversationRow> {
        let row = self.find_existing(caller, id).await?;
        permissions::require_manager(self.current_role(caller, id).await?)?;
        validate_patch(row.kind, &patch)?;
        retry_on_conflict!(self.update_once(caller, id, &patch))
    }

    async fn update_once(
        &self,
        caller: &Caller,
        id: &ConversationId,
        patch: &ConversationPatch,
    ) -> Result<ConversationRow> {
        let mut tx = self.database.begin().await?;
        // The update comes first because it locks the row: from now on no member is removed or gets another role. If
        // the caller is rejected below, the transaction is rolled back.
        let row = rows::update_fields(&mut tx, id, patch).await?;
        let row = row.ok_or_else(|| conversation_not_found(caller, id))?;
        permissions::require_manager(self.caller_role(&mut tx, caller, id).await?)?;
        self.commit_and_publish_update(tx, &row).await?;
        Ok(row)
    }

    /// Deletes a conversation and notifies its members. Its messages are removed in the background.
    pub(super) async fn delete(&self, caller: &Caller, id: &ConversationId) -> Result<()> {
        self.find_existing(caller, id).await?;
        permissions::require_owner(self.current_role(caller, id).await?)?;
        retry_on_conflict!(self.delete_once(caller, id))
    }

    async fn delete_once(&self, caller: &Caller, id: &ConversationId) -> Result<()> {
        let mut tx = self.database.begin().await?;
        let row = rows::lock_and_bump_members_version(&mut tx, id).await?;
        let row = row.ok_or_else(|| conversation_not_found(caller, id))?;
        permissions::require_owner(self.caller_role(&mut tx, caller, id).await?)?;
        let users = member_rows::find_user_ids(&mut tx, id).await?.into_iter();
        rows::delete(&mut tx, id, self.ctx.now()).await?;
        let change = MembershipChange {
            deleted: true,
            users: users.map(|user| (user, MemberTransition::Left)).collect(),
            ..row.membership_change()
        };
        self.commit_and_publish(tx, &change).await
    }
}
