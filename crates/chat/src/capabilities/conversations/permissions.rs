//! Permissions: who may change what in a conversation.
//!
//! Invariant: admins and services have the rights of an owner in every conversation.

use super::Conversations;
use super::member_rows::{self, MemberRow};
use super::model::MemberRole;
use super::rows::ConversationRow;
use crate::api::caller::{Caller, Role};
use crate::api::error::{Error, Result};
use crate::database::WriteTransaction;
use crate::ids::{ConversationId, UserId};

/// Whether the caller has the rights of an owner in every conversation.
pub(super) fn is_admin_or_service(caller: &Caller) -> bool {
    caller.role != Role::User
}

/// Error for a conversation that does not exist. Plain users get `NotAMember`, so they cannot probe for conversation
/// ids.
pub(super) fn conversation_not_found(caller: &Caller, conversation: &ConversationId) -> Error {
    if is_admin_or_service(caller) {
        Error::NotFound(format!("conversation {conversation} does not exist"))
    } else {
        Error::NotAMember(conversation.clone())
    }
}

/// Returns the caller's effective role: the role in the caller's row, or `Owner` for admins and services.
pub(super) fn effective_role(
    caller: &Caller,
    conversation: &ConversationId,
    own: Option<&MemberRow>,
) -> Result<MemberRole> {
    if is_admin_or_service(caller) {
        return Ok(MemberRole::Owner);
    }
    let own = own.ok_or_else(|| Error::NotAMember(conversation.clone()))?;
    Ok(own.role)
}

/// Rejects callers who are neither owner nor admin of the conversation.
pub(super) fn require_manager(role: MemberRole) -> Result<()> {
    if role == MemberRole::Member {
        let text =
            "only owners and admins of a conversation can change the conversation or its members";
        return Err(Error::Forbidden(text.to_owned()));
    }
    Ok(())
}

/// Rejects callers who are not owners of the conversation, which they want to delete.
pub(super) fn require_owner(role: MemberRole) -> Result<()> {
    if role != MemberRole::Owner {
        let text = "only owners can delete a conversation";
        return Err(Error::Forbidden(text.to_owned()));
    }
    Ok(())
}

/// Rejects callers who are not owners if an owner is added, changed or removed.
pub(super) fn require_owner_for_owner_change(
    role: MemberRole,
    concerned: &[Option<MemberRole>],
) -> Result<()> {
    if role != MemberRole::Owner && concerned.contains(&Some(MemberRole::Owner)) {
        let text = "only owners can add, change or remove owners";
        return Err(Error::Forbidden(text.to_owned()));
    }
    Ok(())
}

/// Whether the caller is this user.
pub(super) fn is_same_user(caller: &Caller, user: &UserId) -> bool {
    caller.user.as_ref() == Some(user)
}

impl Conversations {
    /// Parses a conversation id, and checks that the caller is a member of the conversation. A service needs no
    /// membership.
    pub(crate) async fn require_member(&self, caller: &Caller, id: &str) -> Result<ConversationId> {
        let id = ConversationId::new(id)?;
        if caller.role != Role::Service && !self.is_member(&id, caller.require_user()?).await? {
            return Err(Error::NotAMember(id));
        }
        Ok(id)
    }

    /// Parses a conversation id, and checks that the caller may see the conversation: as a member, an admin or a
    /// service.
    pub(super) async fn require_readable(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<ConversationId> {
        if is_admin_or_service(caller) {
            return Ok(ConversationId::new(id)?);
        }
        self.require_member(caller, id).await
    }

    /// Reads a conversation that the caller wants to change.
    pub(super) async fn find_existing(
        &self,
        caller: &Caller,
        id: &ConversationId,
    ) -> Result<ConversationRow> {
        let row = self.find_conversation(id).await?;
        row.ok_or_else(|| conversation_not_found(caller, id))
    }

    /// Returns the caller's effective role, by the caller's present row.
    pub(super) async fn current_role(
        &self,
        caller: &Caller,
        id: &ConversationId,
    ) -> Result<MemberRole> {
        let own = match &caller.user {
            Some(user) if !is_admin_or_service(caller) => self.find_member(id, user).await?,
            _ => None,
        };
        effective_role(caller, id, own.as_ref())
    }

    /// Returns the caller's effective role, by the caller's row in the transaction.
    pub(super) async fn caller_role(
        &self,
        tx: &mut WriteTransaction,
        caller: &Caller,
        id: &ConversationId,
    ) -> Result<MemberRole> {
        let own = match &caller.user {
            Some(user) if !is_admin_or_service(caller) => {
                member_rows::find_in(tx, id, user).await?
            }
            _ => None,
        };
        effective_role(caller, id, own.as_ref())
    }
}
