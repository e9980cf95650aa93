//! Permissions: who may change what in a conversation.
//!
//! Invariant: admins and services have the rights of an owner in every conversation.

use super::enums::MemberRole;
use super::member_rows::MemberRow;
use crate::api::caller::{Caller, Role};
use crate::api::error::{Error, Result};
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
