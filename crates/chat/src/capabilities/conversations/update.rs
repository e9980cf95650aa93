//! Updates and deletes conversations.
//!
//! Invariant: the caller's role is read in the transaction that holds the lock of the conversation's row.

use super::model::{ConversationPatch, MemberRole, MemberTransition, MembershipChange};
use super::permissions::{self, conversation_not_found};
use super::rows::{self, ConversationRow};
use super::validate::validate_patch;
use super::{Conversations, member_rows, retry_on_conflict};
use crate::api::caller::Caller;
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::ids::ConversationId;

impl Conversations {
    /// Changes fields of a conversation.
    pub(super) async fn update(
        &self,
        caller: &Caller,
        id: &ConversationId,
        patch: ConversationPatch,
    ) -> Result<ConversationRow> {
        let row = self.find_conversation(id).await?;
        let row = row.ok_or_else(|| conversation_not_found(caller, id))?;
        let own = match &caller.user {
            Some(user) => self.find_member(id, user).await?,
            None => None,
        };
        permissions::require_manager(permissions::effective_role(caller, id, own.as_ref())?)?;
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
        let retry_guard = self.unpublished_updates.guard([id.clone()]);
        tx.commit().await?;
        let published = self.publish_update(&row).await;
        log_failure("publish an updated conversation", &published);
        if published.is_ok() {
            retry_guard.complete();
        }
        Ok(row)
    }

    /// Deletes a conversation and notifies its members. Its messages are removed in the background.
    pub(super) async fn delete(&self, caller: &Caller, id: &ConversationId) -> Result<()> {
        retry_on_conflict!(self.delete_once(caller, id))
    }

    async fn delete_once(&self, caller: &Caller, id: &ConversationId) -> Result<()> {
        let mut tx = self.database.begin().await?;
        let row = rows::lock_and_bump_members_version(&mut tx, id).await?;
        let row = row.ok_or_else(|| conversation_not_found(caller, id))?;
        if self.caller_role(&mut tx, caller, id).await? != MemberRole::Owner {
            let text = "only owners can delete a conversation";
            return Err(Error::Forbidden(text.to_owned()));
        }
        let users = member_rows::find_user_ids(&mut tx, id).await?.into_iter();
        rows::delete(&mut tx, id, self.ctx.now()).await?;
        let change = MembershipChange {
            deleted: true,
            users: users.map(|user| (user, MemberTransition::Left)).collect(),
            ..row.membership_change()
        };
        self.commit_and_publish(Some(tx), change).await
    }
}
